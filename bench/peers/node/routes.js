'use strict';

// What all apps of the comparison answer.

const BODY_BYTES = 300;
const SLOW_MS = 1000;

const REPLY = (() => {
  const [head, tail] = ['{"id":"ord_1","status":"created","note":"', '"}'];
  return head + 'n'.repeat(BODY_BYTES - head.length - tail.length) + tail;
})();
const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

// `isDone` says that somebody else has answered this request already.
function routes(app, isDone) {
  let executions = 0;
  const order = (response) => response.status(201).type('application/json').send(REPLY);
  const post = (path, answer) =>
    app.post(path, (request, response) => {
      if (isDone(request)) return;
      executions += 1;
      answer(response);
    });

  app.get('/count', (_request, response) => response.type('text/plain').send(`${executions}`));
  post('/v1/orders', order);
  post('/v1/slow', (response) => setTimeout(() => order(response), SLOW_MS));
  post('/v1/bytes', (response) =>
    response.status(201).type('application/octet-stream').send(EVERY_BYTE),
  );
  post('/v1/headers', (response) => {
    response.set('Link', ['</v1/orders/1>; rel="self"', '</v1/orders>; rel="up"']);
    response.set('Set-Cookie', ['a=1; Path=/', 'b=2; Path=/']);
    order(response);
  });
}

module.exports = { routes };
