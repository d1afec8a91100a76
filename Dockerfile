# Images of spotbatch. One target each:
#
#   worker         GPU: CUDA runtime and the GPU build of ONNX Runtime (linux/amd64)
#   worker-cpu     ONNX Runtime on CPUs
#   worker-static  the bare static binary, for the kind "command": copy it into the
#                  image that has your program,
#                    COPY --from=spotbatch-worker-static /usr/local/bin/worker /usr/local/bin/worker
#   publisher      static
#   localcloud     static
#
#   docker build --target worker --build-arg VERSION=$(git describe --tags --always) -t spotbatch-worker .
#
# Needs BuildKit (DOCKER_BUILDKIT=1 before Docker 23).

ARG GO_IMAGE=golang:1.26.8-bookworm
# The GPU build of ONNX Runtime below wants CUDA 12 and cuDNN 9.
ARG CUDA_IMAGE=nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04
ARG CPU_IMAGE=debian:12.12-slim

# ---- sources and modules, shared by all builds
FROM ${GO_IMAGE} AS source
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .

# ---- static binaries: no cgo, so no ONNX Runtime
FROM source AS static
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/worker ./cmd/publisher ./cmd/localcloud

# ---- the worker with cgo, which loads ONNX Runtime when it starts
FROM source AS cgo
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/ ./cmd/worker

# ---- ONNX Runtime, as Microsoft releases it
FROM ${GO_IMAGE} AS onnxruntime
ARG ONNXRUNTIME_VERSION=1.30.0
ARG ONNXRUNTIME_URL=https://github.com/microsoft/onnxruntime/releases/download/v${ONNXRUNTIME_VERSION}
WORKDIR /download

FROM onnxruntime AS onnxruntime-gpu
# Of the version above; give both arguments together.
ARG ONNXRUNTIME_GPU_SHA256=f9886932ee7bb0b4d3fcab736a392d4ff5efaa0672b47f19f0cec03437cf64f1
RUN curl -fsSL --retry 3 -o ort.tgz "${ONNXRUNTIME_URL}/onnxruntime-linux-x64-gpu_cuda12-${ONNXRUNTIME_VERSION}.tgz" \
    && echo "${ONNXRUNTIME_GPU_SHA256}  ort.tgz" | sha256sum -c - \
    && mkdir /opt/onnxruntime \
    && tar -xzf ort.tgz -C /opt/onnxruntime --strip-components=1 \
    # TensorRT's provider needs libraries that the CUDA image does not have.
    && rm -rf ort.tgz /opt/onnxruntime/include /opt/onnxruntime/lib/libonnxruntime_providers_tensorrt.so

FROM onnxruntime AS onnxruntime-cpu
ARG TARGETARCH=amd64
ARG ONNXRUNTIME_CPU_AMD64_SHA256=a5ed5a3cac51fbb2e90da632ae43d19212faaa20e76484e62bcb7c23ddb3b3fd
ARG ONNXRUNTIME_CPU_ARM64_SHA256=e16a27a8ed330bbc698df7330b0cf56e722f354e3bcc92118682c74ef3c3e3da
RUN case "${TARGETARCH}" in \
      amd64) platform=linux-x64 sum="${ONNXRUNTIME_CPU_AMD64_SHA256}" ;; \
      arm64) platform=linux-aarch64 sum="${ONNXRUNTIME_CPU_ARM64_SHA256}" ;; \
      *) echo "no ONNX Runtime for ${TARGETARCH}" >&2; exit 1 ;; \
    esac \
    && curl -fsSL --retry 3 -o ort.tgz "${ONNXRUNTIME_URL}/onnxruntime-${platform}-${ONNXRUNTIME_VERSION}.tgz" \
    && echo "${sum}  ort.tgz" | sha256sum -c - \
    && mkdir /opt/onnxruntime \
    && tar -xzf ort.tgz -C /opt/onnxruntime --strip-components=1 \
    && rm -rf ort.tgz /opt/onnxruntime/include

# ---- worker, GPU
FROM ${CUDA_IMAGE} AS worker
ARG VERSION=dev
LABEL org.opencontainers.image.title="spotbatch worker (GPU)" \
      org.opencontainers.image.source="https://github.com/spotbatch/spotbatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=source /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=onnxruntime-gpu /opt/onnxruntime /opt/onnxruntime
COPY --from=cgo /out/worker /usr/local/bin/worker
ENV ONNXRUNTIME_LIB=/opt/onnxruntime/lib/libonnxruntime.so.1
USER 65532:65532
EXPOSE 8081 9464
ENTRYPOINT ["/usr/local/bin/worker"]
CMD ["run"]

# ---- worker, CPU
FROM ${CPU_IMAGE} AS worker-cpu
ARG VERSION=dev
LABEL org.opencontainers.image.title="spotbatch worker (CPU)" \
      org.opencontainers.image.source="https://github.com/spotbatch/spotbatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=source /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=onnxruntime-cpu /opt/onnxruntime /opt/onnxruntime
COPY --from=cgo /out/worker /usr/local/bin/worker
ENV ONNXRUNTIME_LIB=/opt/onnxruntime/lib/libonnxruntime.so.1
USER 65532:65532
EXPOSE 8081 9464
ENTRYPOINT ["/usr/local/bin/worker"]
CMD ["run"]

# ---- worker, static
FROM scratch AS worker-static
ARG VERSION=dev
LABEL org.opencontainers.image.title="spotbatch worker (static)" \
      org.opencontainers.image.source="https://github.com/spotbatch/spotbatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=source /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=static /out/worker /usr/local/bin/worker
USER 65532:65532
EXPOSE 8081 9464
ENTRYPOINT ["/usr/local/bin/worker"]
CMD ["run"]

# ---- localcloud
FROM scratch AS localcloud
ARG VERSION=dev
LABEL org.opencontainers.image.title="spotbatch localcloud" \
      org.opencontainers.image.source="https://github.com/spotbatch/spotbatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=static /out/localcloud /usr/local/bin/localcloud
USER 65532:65532
EXPOSE 8085 9010 4443 8090
ENTRYPOINT ["/usr/local/bin/localcloud"]
# Reachable from other containers: there is nothing in it to protect.
CMD ["--pubsub", "0.0.0.0:8085", "--spanner", "0.0.0.0:9010", "--gcs", "0.0.0.0:4443", "--admin", "0.0.0.0:8090"]

# ---- publisher, the default
FROM scratch AS publisher
ARG VERSION=dev
LABEL org.opencontainers.image.title="spotbatch publisher" \
      org.opencontainers.image.source="https://github.com/spotbatch/spotbatch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=source /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=static /out/publisher /usr/local/bin/publisher
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/publisher"]
CMD ["--help"]
