'use strict';

// One Express app that answers at once: bare, or with a peer's middleware that keeps its records on
// Redis.
//
//   node app.js bare|express-idempotency|node-idempotency redis://127.0.0.1:6379

const express = require('express');
const idempotency = require('express-idempotency');
const RedisAdapter = require('express-idempotency-redis-adapter').default;
const { Idempotency } = require('@node-idempotency/core');
const { RedisStorageAdapter } = require('@node-idempotency/storage-adapter-redis');

const { nodeIdempotency } = require('./node-idempotency');
const { routes } = require('./routes');

async function main() {
  // The process that started this one holds the other end.
  process.stdin.on('end', () => process.exit(0)).resume();
  const [layer, redis] = process.argv.slice(2);
  const app = express();
  app.use(express.json());
  const isDone = await protect(app, layer, redis);
  routes(app, isDone);
  // Without it, Express prints every refusal with a stack trace.
  app.use((error, _request, response, _next) => {
    if (response.headersSent) return;
    const status = response.statusCode >= 400 ? response.statusCode : 500;
    response.status(status).json({ error: error.message });
  });
  const server = app.listen(0, '127.0.0.1', () => {
    const { address, port } = server.address();
    console.log(`app listening on ${address}:${port}`);
  });
  // Connections are kept for as long as the load generator wants.
  server.keepAliveTimeout = 0;
}

// Puts the middleware in place, and gives what a handler must ask before it works: one of the
// peers calls handlers for replays, too.
async function protect(app, layer, redis) {
  switch (layer) {
    case 'bare':
      return () => false;
    case 'express-idempotency': {
      const adapter = new RedisAdapter({ connectionConfig: { url: redis } });
      await adapter.connect();
      app.use(idempotency.idempotency({ dataAdapter: adapter }));
      return (request) => idempotency.getSharedIdempotencyService().isHit(request);
    }
    case 'node-idempotency': {
      const adapter = new RedisStorageAdapter({ url: redis });
      await adapter.connect();
      app.use(nodeIdempotency(new Idempotency(adapter)));
      return () => false;
    }
    default:
      throw new Error(`no such layer: ${layer}`);
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
