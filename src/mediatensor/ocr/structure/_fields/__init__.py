"""Keys with their values: those that a form has, and those that somebody asks for.

* ``lines``: words side by side, as phrases and rows;
* ``pairs``: which phrase of a form is the key of which other one;
* ``rules``: what is asked for, ready-made sets of it, and how expressions of users are kept bounded;
* ``asked``: the best value for each rule;
* ``places``: who wrote a receipt or an invoice, the name and the address at the top;
* ``values``: the forms of amounts, dates and accounts, and what they mean.
"""
