# Image of this benchmark, for Kubernetes and other container runtimes. It runs as an unprivileged user.
#
#   podman build -t aiperf:cpu .
#   podman build --build-arg DEVICE=cuda -t aiperf:cuda .
#   podman build --build-arg DEVICE=rocm --build-arg TORCH_INDEX=https://download.pytorch.org/whl/rocm… -t aiperf:rocm .
#
# DEVICE       build of torch. The packages and their hashes are in requirements/*.txt. A build of TORCH_INDEX is not compared with hashes
# BASE         Debian or Ubuntu, best by digest (IMAGE@sha256:…). Horovod uses NCCL if BASE has CUDA's compiler, otherwise Gloo
# APT=false    installs no Debian package: BASE has python3 with venv and headers, a C++ compiler, ssh, ps and wget, and cmake for Horovod
# HOROVOD=off  without Horovod: runs use trainer.collective=torch
# INDEX=false  uses no package index, only what `make wheels` put into wheels/
#
# tests/cluster/test_image.py builds and runs the CPU image. An earlier form of this file passed it; this one has not been built yet. BASE is a
# tag and not a digest, which could not be looked up. Details: docs/clusters.md.
ARG BASE=docker.io/library/python:3.11-slim-bookworm
FROM ${BASE} AS base
ARG APT=true
# A compiler stays in the image: on processors torch.compile calls g++, on GPUs Triton calls gcc, and both need Python's headers.
RUN if [ "$APT" = true ]; then \
      command -v python3 >/dev/null || python="python3 python3-venv libpython3-dev"; \
      apt-get update && \
      apt-get install -y --no-install-recommends $python g++ ca-certificates openssh-client procps wget && \
      rm -rf /var/lib/apt/lists/*; \
    fi
ENV PATH=/opt/aiperf/bin:$PATH PYTHONUNBUFFERED=1
# A login shell, which KubeRay can be configured to use, sets PATH again.
RUN python3 -m venv /opt/aiperf && echo 'export PATH=/opt/aiperf/bin:$PATH' >/etc/profile.d/aiperf.sh

# Packages before sources: a change of the sources does not install them again.
FROM base AS packages
ARG DEVICE=cpu
ARG INDEX=true
ARG TORCH_INDEX=
ENV PIP_FIND_LINKS=/wheels PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements requirements
COPY tools tools
RUN --mount=type=bind,source=wheels,target=/wheels \
    set -e; \
    [ "$INDEX" = true ] || export PIP_NO_INDEX=1; \
    index=$TORCH_INDEX; [ "$DEVICE" != cpu ] || index=${index:-https://download.pytorch.org/whl/cpu}; \
    pip install --require-hashes --no-deps -r requirements/run.txt -r requirements/image.txt; \
    if [ -z "$TORCH_INDEX" ]; then pip install --require-hashes --no-deps ${index:+--extra-index-url "$index"} -r "requirements/$DEVICE.txt"; \
    else pip uninstall -y torchvision; pip install --index-url "$index" $(grep -ohE '^(torch|torchvision)==[0-9.]+' requirements/run.txt requirements/cpu.txt); fi; \
    bash tools/torchvision_without_cuda.sh /opt/aiperf/bin/python

# cmake and what else only the build of Horovod needs stays in this stage.
FROM packages AS horovod
ARG APT=true
ARG HOROVOD=require
RUN --mount=type=bind,source=wheels,target=/wheels \
    set -e; mkdir -p /kept; [ "$HOROVOD" != off ] || exit 0; \
    [ "$APT" != true ] || { apt-get update && apt-get install -y --no-install-recommends cmake make; }; \
    [ "$INDEX" = true ] || export PIP_NO_INDEX=1; \
    cp -r /wheels/horovod/. /kept 2>/dev/null || true; \
    bash tools/build_horovod.sh /opt/aiperf/bin/python /kept "$(nproc)"

FROM packages AS installed
ARG HOROVOD=require
COPY --from=horovod /kept /kept
COPY pyproject.toml setup.py README.md LICENSE ./
COPY aiperf aiperf
COPY cluster cluster
COPY conf conf
COPY morphism morphism
COPY searchers searchers
RUN set -e; [ "$HOROVOD" = off ] || bash tools/build_horovod.sh /opt/aiperf/bin/python /kept; \
    pip install --no-deps --no-build-isolation .; \
    python tools/torch_build.py

FROM base
COPY --from=installed /opt/aiperf /opt/aiperf
# of NVIDIA's container runtime, which provides the driver's libraries. torch's wheels contain those of CUDA
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN useradd --uid 1000 --create-home aiperf && mkdir /runs && chown aiperf:aiperf /runs
USER 1000:1000
WORKDIR /home/aiperf
CMD ["python", "-m", "aiperf", "--help"]
