'use strict';

// An Express middleware over @node-idempotency/core: the package of that name for Express could
// not be had from the registry (2026-11). It keeps what the core lets it keep: status, headers and body, bytes included.

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

// The record is written first, and the answer is sent after it.
function keepWhatIsSent(core, asked, response) {
  const send = response.send.bind(response);
  response.send = (body) => {
    response.send = send;
    const additional = {
      status: response.statusCode,
      headers: response.getHeaders(),
      isBuffer: Buffer.isBuffer(body),
    };
    core.onResponse(asked, { body, additional }).then(
      () => send(body),
      (error) => response.status(500).json({ error: error.message }),
    );
    return response;
  };
}

module.exports = { nodeIdempotency };
