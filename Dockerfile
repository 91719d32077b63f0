# docker build -t tidemark .
# docker run -p 8000:8000 -v /models:/models:ro tidemark serve /models/MODEL
#
# With wheels at hand: docker build --build-context wheels=FOLDER -t tidemark .
# torch is the one that pip finds; the wheels folder or PIP_EXTRA_INDEX_URL decide whether it is CPU's or CUDA's.
ARG BASE=python:3.11-slim-bookworm

FROM scratch AS wheels

# The kernels are compiled here for every x86-64 CPU: which of them runs is chosen when the server starts.
FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY . .
RUN --mount=type=bind,from=wheels,target=/wheels \
    PIP_FIND_LINKS=/wheels python -m pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
    && python -m zipfile --list /dist/tidemark-*.whl | grep --quiet libtidemark.so

FROM ${BASE}
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
RUN --mount=type=bind,from=wheels,target=/wheels \
    --mount=type=bind,from=build,source=/dist,target=/dist \
    --mount=type=bind,source=constraints.txt,target=/constraints.txt \
    PIP_FIND_LINKS=/wheels python -m pip install --no-cache-dir --constraint /constraints.txt /dist/tidemark-*.whl \
    && useradd --create-home --uid 10001 tidemark
USER tidemark
ENV TIDEMARK_SERVER__HOST=0.0.0.0
EXPOSE 8000
HEALTHCHECK --start-period=120s CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ.get('TIDEMARK_SERVER__PORT', '8000') + '/health')"]
ENTRYPOINT ["tidemark"]
CMD ["serve"]
