'use strict';

// An Express middleware over @node-idempotency/core: the package of its authors for Express could not be had from
// the registry (2026-11). Like theirs it answers while the record is written. It keeps what the core lets it keep:
// status, headers and body, bytes included.

const { IdempotencyErrorCodes } = require('@node-idempotency/core');

const STATUS = {
  [IdempotencyErrorCodes.REQUEST_IN_PROGRESS]: 409,
  [IdempotencyErrorCodes.IDEMPOTENCY_FINGERPRINT_MISSMATCH]: 422,
};

function nodeIdempotency(core) {
  return async (request, response, next) => {
    const asked = {
      method: request.method,
      path: request.path,
      headers: request.headers,
      body: request.body,
    };
    let kept;
    try {
      kept = await core.onRequest(asked);
    } catch (error) {
      response.status(STATUS[error.code] ?? 400).json({ error: error.message });
      return;
    }
    if (kept) {
      replay(response, kept);
    } else {
      keepWhatIsSent(core, asked, response);
      next();
    }
  };
}

function replay(response, { body, additional }) {
  response.status(additional.status).set(additional.headers).set('Idempotent-Replayed', 'true');
  response.send(additional.isBuffer ? Buffer.from(body) : body);
}

function keepWhatIsSent(core, asked, response) {
  const send = response.send.bind(response);
  response.send = (body) => {
    response.send = send;
    const additional = {
      status: response.statusCode,
      headers: response.getHeaders(),
      isBuffer: Buffer.isBuffer(body),
    };
    // Nobody waits for it, and nobody can be told that it failed.
    core.onResponse(asked, { body, additional }).catch((error) => console.error(error.message));
    return send(body);
  };
}

module.exports = { nodeIdempotency };
