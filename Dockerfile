# Saccade in a container, with the PyTorch that pip finds:
#   docker build -t saccade . && docker run --rm saccade
# or from an image that holds PyTorch already:
#   docker build -t saccade:cuda --build-arg BASE=pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime .
# Not built by a real daemon yet: the tests check the files and run the commands one by one.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml setup.py MANIFEST.in README.md LICENSE ./
COPY src ./src
RUN python3 -m pip wheel --no-deps --wheel-dir dist .

FROM ${BASE}
RUN python3 -m venv --system-site-packages /opt/saccade
ENV PATH=/opt/saccade/bin:$PATH SACCADE_CACHE=/tmp/saccade
# options of pip, such as --index-url with PyTorch's index of CPU builds; unused if the base has PyTorch
ARG TORCH_OPTIONS=""
RUN python3 -m pip install --no-cache-dir $TORCH_OPTIONS "torch>=2.9"
COPY --from=build /src/dist /tmp/dist
RUN python3 -m pip install --no-cache-dir "$(ls /tmp/dist/*.whl)[demo,parquet]" && rm -r /tmp/dist
RUN useradd --create-home saccade
USER saccade
WORKDIR /home/saccade
ENTRYPOINT ["saccade"]
CMD ["demo"]
