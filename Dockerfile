# docker build -t tidemark .
# docker run -p 8000:8000 -v /models:/models:ro tidemark serve /models/MODEL
#
# `make image` builds it with whatever engine is here, and tries it. docs/deploying.md has the rest.
# With wheels at hand: docker build --build-context wheels=FOLDER -t tidemark .
# torch is the one that pip finds; the wheels folder or PIP_EXTRA_INDEX_URL decide whether it is CPU's or CUDA's.
# With extras of pyproject.toml, such as traces: docker build --build-arg EXTRAS=otel -t tidemark .
ARG BASE=python:3.11-slim-bookworm

FROM scratch AS wheels

# The default model, where it is asked for, and settings that name it.
FROM ${BASE} AS model
ARG MODEL=""
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
COPY deploy/fetch_model.py /build/
RUN --mount=type=bind,from=wheels,target=/wheels \
    mkdir /default && touch /default/tidemark.toml \
    && if [ -n "${MODEL}" ]; then \
        python -m venv /pip \
        && PIP_FIND_LINKS=/wheels /pip/bin/python /build/fetch_model.py "/default/${MODEL}" \
        && printf '[model]\npath = "/opt/default/%s"\n' "${MODEL}" > /default/tidemark.toml \
        && chmod 644 /default/*; \
    fi

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
RUN test "$(uname -m)" = x86_64 \
    || { echo "Tidemark's kernels are x86-64's, this is $(uname -m): build with --platform=linux/amd64" >&2; exit 1; }
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/* \
    && python -m venv /pip && python -m venv --without-pip /opt/tidemark
# What Tidemark stands on: a layer that changes with pyproject.toml and the pins.
ARG EXTRAS=""
COPY pyproject.toml constraints.txt deploy/image/dependencies.py deploy/image/slim.sh /build/
RUN --mount=type=bind,from=wheels,target=/wheels \
    python /build/dependencies.py /build/pyproject.toml "${EXTRAS}" > /build/dependencies.txt \
    && PIP_FIND_LINKS=/wheels /pip/bin/pip --python /opt/tidemark/bin/python install --no-cache-dir --no-compile \
        --constraint /build/constraints.txt --requirement /build/dependencies.txt \
    && sh /build/slim.sh /opt/tidemark
# The kernels are compiled for every x86-64 CPU: which of them runs is chosen when the server starts.
# A layer that changes with them and the one before; pip finds them built, newer than their sources, and takes them.
WORKDIR /app
COPY setup.py pyproject.toml LICENSE /app/
COPY engine/model/kernels /app/engine/model/kernels
RUN /opt/tidemark/bin/python -B setup.py --quiet build_ext \
    && test -s build/lib.linux-x86_64-cpython-311/engine/model/kernels/libtidemark.so
COPY . /app/
RUN --mount=type=bind,from=wheels,target=/wheels \
    PIP_FIND_LINKS=/wheels /pip/bin/pip --python /opt/tidemark/bin/python install --no-cache-dir --no-deps --prefix /dist /app \
    && test -s /dist/lib/python3.11/site-packages/engine/model/kernels/libtidemark.so \
    && PYTHONPATH=/dist/lib/python3.11/site-packages /opt/tidemark/bin/python /app/deploy/image/warm.py

# What is said comes before what is copied, since an engine without overlays copies the whole image for each line.
FROM ${BASE}
RUN useradd --uid 10001 --user-group --home-dir /cache --no-create-home --shell /usr/sbin/nologin tidemark \
    && install --directory --owner=tidemark --group=tidemark /cache && mkdir /models
ENV PATH=/opt/tidemark/bin:${PATH} \
    HF_HOME=/cache/huggingface \
    TIDEMARK_CONFIG=/opt/default/tidemark.toml \
    TIDEMARK_SERVER__HOST=0.0.0.0
USER 10001:10001
WORKDIR /cache
VOLUME ["/models", "/cache"]
EXPOSE 8000
HEALTHCHECK --start-period=120s CMD ["python", "-I", "-c", "import http.client as h, os, sys; c = h.HTTPConnection('127.0.0.1:' + os.environ.get('TIDEMARK_SERVER__PORT', '8000'), timeout=5); c.request('GET', '/health'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["tidemark"]
CMD ["serve"]
COPY --from=build /opt/tidemark /opt/tidemark
COPY --from=model /default /opt/default
COPY --from=build /dist /opt/tidemark
