# benchharness in a container:
#   docker build --tag bench .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" bench run --model tiny --suite glue --data mini
# Without --user the results belong to root. With NVIDIA's GPUs, of whose driver the index is:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 --tag bench .
#   docker run --rm --user "$(id -u):$(id -g)" --gpus all --volume "$PWD:/work" bench run --model roberta --suite glue
# With what is optional, as pyproject.toml calls it:
#   docker build --build-arg EXTRAS=onnx,postgresql --tag bench .
FROM python:3.11-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=
# torch first, from its own index: pip would take the CUDA build of PyPI.
RUN --mount=type=bind,target=/source,rw \
    pip install --no-cache-dir --constraint /source/constraints.txt --index-url "$TORCH_INDEX" \
        --extra-index-url https://pypi.org/simple torch \
    && pip install --no-cache-dir --constraint /source/constraints.txt "/source${EXTRAS:+[$EXTRAS]}"
# Results, and what was downloaded, stay in the folder that is mounted here, also as another --user.
WORKDIR /work
ENV HOME=/work
ENTRYPOINT ["bench"]
CMD ["--help"]
