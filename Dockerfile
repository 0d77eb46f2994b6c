# Image of this benchmark, for Kubernetes and other container runtimes. It runs as an unprivileged user.
#
#   podman build --target cpu  --build-arg BASE=IMAGE -t aiperf:cpu .
#   podman build --target cuda --build-arg BASE=IMAGE_WITH_CUDA_AND_PYTHON -t aiperf:cuda .
#
# BASE: Debian or Ubuntu with Python 3.11 or newer, its venv module, and a C compiler (Triton and torch.compile need one). With
# APT=true missing packages of these are installed. Wheels in wheels/ have precedence over a package index, for example Horovod's
# wheel from tools/build_horovod.sh. INDEX=false uses no index. TORCH_INDEX: package index with torch's CPU or CUDA builds.
# Details: docs/clusters.md. tests/cluster/test_image.py builds and runs the cpu target. The cuda target has not been built.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS base
ARG APT=false
RUN if [ "$APT" = true ]; then \
      apt-get update && \
      apt-get install -y --no-install-recommends python3 python3-venv gcc libc6-dev libpython3-dev ca-certificates openssh-client procps wget && \
      rm -rf /var/lib/apt/lists/*; \
    fi
ENV PATH=/opt/aiperf/bin:$PATH PYTHONUNBUFFERED=1
# A login shell, which KubeRay can be configured to use, sets PATH again.
RUN python3 -m venv /opt/aiperf && echo 'export PATH=/opt/aiperf/bin:$PATH' >/etc/profile.d/aiperf.sh

FROM base AS installed
ARG INDEX=true
ARG TORCH_INDEX=
ARG RAY_EXTRAS=default
WORKDIR /src
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY aiperf aiperf
COPY cluster cluster
COPY conf conf
COPY morphism morphism
COPY searchers searchers
COPY tools/torchvision_without_cuda.sh tools/
# torch first and exactly its pinned version: a later step with a range would install the newest build. KubeRay needs Ray's extra
# "default": the dashboard, which accepts jobs, and the agent, which answers the liveness probes of the pods.
RUN --mount=type=bind,source=wheels,target=/wheels \
    set -e; \
    export PIP_FIND_LINKS=/wheels PIP_CONSTRAINT=/src/constraints.txt PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1; \
    [ "$INDEX" = true ] || export PIP_NO_INDEX=1; \
    pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} setuptools wheel \
      "$(grep -E '^torch==' constraints.txt)" "$(grep -E '^torchvision==' constraints.txt)"; \
    pip install "ray[$RAY_EXTRAS]"; \
    pip install --no-build-isolation ".[kubernetes]"; \
    for wheel in /wheels/horovod-*.whl; do [ ! -e "$wheel" ] || pip install "$wheel"; done; \
    python -c 'import torchvision' 2>/dev/null || bash tools/torchvision_without_cuda.sh /opt/aiperf/bin/python

FROM base AS runs
COPY --from=installed /opt/aiperf /opt/aiperf
RUN useradd --uid 1000 --create-home aiperf && mkdir /runs && chown aiperf:aiperf /runs
USER 1000:1000
WORKDIR /home/aiperf
CMD ["python", "-m", "aiperf", "--help"]

FROM runs AS cpu

# NVIDIA's container runtime provides the driver's libraries, and torch's wheels contain those of CUDA.
FROM runs AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
