# benchharness in a container:
#   docker build --tag bench .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" bench run --model tiny --suite glue --data mini
# Without --user the results belong to the user 1000, never to root. With NVIDIA's GPUs, of whose driver the index is:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 --tag bench .
#   docker run --rm --user "$(id -u):$(id -g)" --gpus all --volume "$PWD:/work" bench run --model roberta --suite glue
# With what is optional, as pyproject.toml calls it:
#   docker build --build-arg EXTRAS=onnx,postgresql --tag bench .
# With a base image that cannot change, by the digest that `docker image inspect python:3.11-slim` shows after a
# pull (RepoDigests). Released images are built so, by .ci/image, and name it in a label:
#   docker build --build-arg BASE=python:3.11-slim@sha256:DIGEST --tag bench .
ARG BASE=python:3.11-slim
FROM ${BASE}
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=
# The version that the image states: git, which would tell it, is not in the image.
ARG VERSION=
# torch first, from its own index: pip would take the CUDA build of PyPI.
RUN --mount=type=bind,target=/source,rw \
    if [ -n "$VERSION" ]; then echo "$VERSION" > /source/benchharness/VERSION; fi \
    && pip install --no-cache-dir --constraint /source/constraints.txt --index-url "$TORCH_INDEX" \
        --extra-index-url https://pypi.org/simple torch \
    && pip install --no-cache-dir --constraint /source/constraints.txt "/source${EXTRAS:+[$EXTRAS]}"
# Results, and what was downloaded, stay in the folder that is mounted here, also as another --user.
RUN useradd --uid 1000 --create-home --home-dir /work bench
WORKDIR /work
ENV HOME=/work USER=bench
USER 1000:1000
ENTRYPOINT ["bench"]
CMD ["--help"]
