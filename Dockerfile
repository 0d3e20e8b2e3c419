# syntax=docker/dockerfile:1

FROM node:24-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/package.json
COPY test/generated-client/package.json test/generated-client/package.json
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
COPY pages pages
# The workspaces leave links to folders that are not in the image.
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund && \
    rm node_modules/generated-client node_modules/user-records-client

FROM node:24-bookworm-slim
LABEL org.opencontainers.image.title="User Records Service" \
      org.opencontainers.image.description="User records as JSON over HTTP: durable, fast, and exact about its contract." \
      org.opencontainers.image.licenses="MIT"
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=3000 \
    DATABASE_URL=file:/data/users.db
WORKDIR /app
COPY --from=build /app/package.json package.json
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY migrations migrations
COPY LICENSE LICENSE
# A new volume takes its owner and mode from this folder.
RUN install --directory --owner=node --group=node --mode=700 /data
VOLUME /data
USER node
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/readyz`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Not started by npm, which would stand between signals and the service.
ENTRYPOINT ["node", "dist/main.js"]
CMD ["serve"]
