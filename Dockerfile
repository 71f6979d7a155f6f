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

ARG BASE=python:3.13-slim

FROM ${BASE} AS installed
ARG ACCELERATOR=cpu
ARG CPU_WHEELS=
# Extras of pyproject.toml.
ARG EXTRAS=ocr,progress
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
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN /opt/mediatensor/bin/python -m pip install --constraint constraints.txt ".[${EXTRAS}]"

FROM ${BASE}
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
