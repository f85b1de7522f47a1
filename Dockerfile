# The images of gateway, meter and simulator: one static binary each and nothing else, run by an ordinary user.
#
#   docker build --target gateway --tag dream-gateway .
#   docker build --target meter --tag dream-meter .
#   docker build --target meter-sim --tag dream-meter-sim .
#
# Where no base image can be pulled, build the binaries first and take them from target/image. The linker of the machine
# needs glibc's static library (Debian: libc6-dev).
#
#   scripts/static-binaries
#   buildah build --build-arg BINARIES=local --target gateway --tag dream-gateway .
#
# Images hold no man pages; the programs write them:
#
#   docker run --rm --user $(id -u) --volume $PWD:/out dream-gateway man --out /out/man1

ARG BINARIES=build

FROM docker.io/library/rust:1-bookworm AS build
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY protocol protocol
COPY edge edge
COPY gateway gateway
COPY meter meter
COPY meter-sim meter-sim
COPY testkit testkit
COPY scripts/static-binaries scripts/
RUN scripts/static-binaries --release && mkdir /image && cp -r target/image/. /image/

FROM scratch AS local
COPY target/image /image

FROM ${BINARIES} AS binaries

FROM scratch AS meter-sim
LABEL org.opencontainers.image.title="DREAM meter-sim" \
      org.opencontainers.image.description="Simulated homes and meters to try clusters with" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=binaries /image/meter-sim /usr/bin/meter-sim
COPY --from=binaries --chown=65532:65532 /image/empty /tmp
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["/usr/bin/meter-sim"]

FROM scratch AS meter
LABEL org.opencontainers.image.title="DREAM meter" \
      org.opencontainers.image.description="Connects a home's meter to a cluster, and shows its readings to nobody" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=binaries /image/dream-meter /usr/bin/dream-meter
COPY --from=binaries --chown=65532:65532 /image/empty /var/lib/dream-meter
COPY --from=binaries --chown=65532:65532 /image/empty /var/cache/dream-meter
USER 65532:65532
WORKDIR /var/lib/dream-meter
ENTRYPOINT ["/usr/bin/dream-meter"]
CMD ["run", "--config", "/etc/dream-meter/meter.toml"]

FROM scratch AS gateway
LABEL org.opencontainers.image.title="DREAM gateway" \
      org.opencontainers.image.description="The load of every cluster of homes over MQTT, without reading any single home's meter" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=binaries /image/dream-gateway /usr/bin/dream-gateway
COPY --from=binaries --chown=65532:65532 /image/empty /var/lib/dream
USER 65532:65532
WORKDIR /var/lib/dream
EXPOSE 9464
# For engines that restart what is not healthy. Kubernetes has probes of its own, and OCI images leave this out.
HEALTHCHECK --interval=30s --timeout=6s --start-period=20s \
  CMD ["/usr/bin/dream-gateway", "health", "--live", "--config", "/etc/dream/gateway.toml"]
ENTRYPOINT ["/usr/bin/dream-gateway"]
CMD ["run", "--config", "/etc/dream/gateway.toml"]
