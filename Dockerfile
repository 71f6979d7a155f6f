# The mediatensor command in a container, with what reads text and the weights for it: nothing is downloaded when it runs.
#
#   docker build --build-arg CPU_WHEELS=... --tag mediatensor .
#   docker run --rm --volume "$PWD:/work" --user "$(id -u):$(id -g)" mediatensor ocr scan.pdf -o text
#
# CPU_WHEELS is the address of PyTorch's index of CPU wheels, which its installation page gives. Without it pip takes the
# build of torch that brings CUDA along: that works too, in an image several times as large.
#
# For GPUs (on the host: NVIDIA's driver and container toolkit; torch brings the rest of CUDA):
#
#   docker build --build-arg ACCELERATOR=cuda --tag mediatensor:cuda .
#   docker run --rm --gpus all --volume "$PWD:/work" mediatensor:cuda ocr scan.pdf -o text --device cuda
#
# The service, `mediatensor serve`, is a target of its own. It needs no rights, and writes to /tmp alone; files of
# strangers are best read in a container that has nothing else in it:
#
#   docker build --target service --tag mediatensor:service .
#   docker run --rm --publish 127.0.0.1:8000:8000 --read-only --tmpfs /tmp --cap-drop ALL mediatensor:service --jobs 2
#
# It prints its address with a token, or takes yours: --env MEDIATENSOR_TOKEN.

ARG BASE=python:3.13-slim

FROM ${BASE} AS installed
ARG ACCELERATOR=cpu
ARG CPU_WHEELS=
# Extras of pyproject.toml.
ARG EXTRAS=language,ocr,progress,serve,tables
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/mediatensor
WORKDIR /source
COPY constraints.txt ./
# torch first, in a layer of its own: it is most of the image, and changes least.
RUN case "${ACCELERATOR}" in \
        cpu) export PIP_EXTRA_INDEX_URL="${CPU_WHEELS}" ;; \
        cuda) ;; \
        *) echo "ACCELERATOR is ${ACCELERATOR}; it can be cpu or cuda" >&2; exit 1 ;; \
    esac \
    && /opt/mediatensor/bin/python -m pip install --constraint constraints.txt torch
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN /opt/mediatensor/bin/python -m pip install --constraint constraints.txt ".[${EXTRAS}]"

FROM ${BASE} AS command
COPY --from=installed /opt/mediatensor /opt/mediatensor
# "video" lets the driver's decoder into the container.
ENV PATH=/opt/mediatensor/bin:${PATH} NVIDIA_DRIVER_CAPABILITIES=compute,utility,video
RUN useradd --create-home --uid 1000 mediatensor && install --directory --owner mediatensor /work
USER mediatensor
WORKDIR /work
# It works, and without a network (BuildKit, with which Docker builds since version 23, knows the option).
RUN --network=none mediatensor demo --output /tmp/demo && rm -r /tmp/demo
ENTRYPOINT ["mediatensor"]
CMD ["--help"]

FROM command AS service
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health', timeout=5)"]
# Outside the container only what --publish says can reach it.
ENTRYPOINT ["mediatensor", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD []

# What is built if no target is named.
FROM command
