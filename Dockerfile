# benchharness in a container:
#   docker build --tag bench .
#   docker run --rm --volume "$PWD:/work" bench run --model tiny --suite glue --data mini
# With NVIDIA's GPUs, of whose driver the index is:
#   docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 --tag bench .
#   docker run --rm --gpus all --volume "$PWD:/work" bench run --model roberta --suite glue
FROM python:3.11-slim
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY . /source
# torch first, from its own index: pip would take the CUDA build of PyPI.
RUN pip install --no-cache-dir --constraint /source/constraints.txt --index-url "$TORCH_INDEX" \
        --extra-index-url https://pypi.org/simple torch \
    && pip install --no-cache-dir --constraint /source/constraints.txt /source \
    && rm -r /source
# Results, and what was downloaded, stay in the folder that is mounted here, also as another --user.
WORKDIR /work
ENV HOME=/work
ENTRYPOINT ["bench"]
CMD ["--help"]
