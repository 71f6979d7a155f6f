"""Contents of rendered pages: words, names, dates, amounts, codes."""

from __future__ import annotations

import random


def _listed(words: str) -> list[str]:
    return words.split()


WORDS = _listed(
    "the of and to in that is was for with as his on be at by this had not are but from or have an they which one "
    "were all we when there can more if no out so said what up its about into them than only other time new some "
    "could these two may first then any like my now over such our even most made after also did many before must "
    "through back years where much your way well down should because each just those people how too little state "
    "good very make world still own see work long here between both life being under three never know same last "
    "another while us off might great go come since against right came take used himself few house use place during "
    "without again home around small however found thought went say part once general high upon school every report "
    "number company product market office quality sample letter policy program research training account request"
)
NAMES = _listed("Adams Baker Carter Dixon Evans Foster Grant Harris Irving Jensen Keller Larson Miller Norton Owens")
FIRST_NAMES = _listed("Alice Brian Clara David Ellen Frank Grace Henry Irene James Karen Louis Maria Peter Rose Simon")
STREETS = _listed("Maple Oak Cedar Park Lake Hill River Mill Church Station Garden Bridge")
GOODS = _listed("COFFEE BREAD BUTTER CHEESE APPLES ORANGE RICE SUGAR PAPER BATTERY SOAP TOWEL CABLE PENCIL NOODLES")


def amount(rng: random.Random) -> str:
    return f"{rng.randint(1, 1999):,}.{rng.randint(0, 99):02d}"


def date(rng: random.Random) -> str:
    return f"{rng.randint(1, 28):02d}/{rng.randint(1, 12):02d}/{rng.randint(1985, 2024)}"


def name(rng: random.Random) -> str:
    return f"{rng.choice(FIRST_NAMES)} {rng.choice('ABCDEFGHJKLMNPRSTW')}. {rng.choice(NAMES)}"


def address(rng: random.Random) -> str:
    return f"{rng.randint(1, 999)} {rng.choice(STREETS)} Street"


def code(rng: random.Random) -> str:
    return f"{rng.choice('ABCDEFGH')}{rng.randint(10, 99)}-{rng.randint(1000, 99999)}"


def phone(rng: random.Random) -> str:
    return f"({rng.randint(200, 999)}) {rng.randint(200, 999)}-{rng.randint(1000, 9999)}"


def sentence(rng: random.Random) -> str:
    words = rng.choices(WORDS, k=rng.randint(6, 16))
    if rng.random() < 0.4:
        words[rng.randrange(len(words))] = rng.choice([date, amount, code])(rng)
    if rng.random() < 0.5:
        words[len(words) // 2] += ","
    return " ".join(words).capitalize() + "."
