// An app that takes Stripe's webhooks with the official Node SDK, and says what the SDK said.
//
// Usage: node app.mjs FOLDER, where FOLDER holds node_modules, with STRIPE_WEBHOOK_SECRET set.
// Prints {"port": N}, then one JSON line a request. Ends when its standard input does, so that it
// never outlives the test that started it.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

// The SDK is installed beside the build, not beside this file.
const Stripe = createRequire(resolve(process.argv[2], 'any.js'))('stripe');
const SECRET = process.env.STRIPE_WEBHOOK_SECRET;
// No call is made with the key; the client needs one to exist.
const stripe = new Stripe('sk_test_never_used');

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// A real app has one address for each form of event; here one takes all, so the body decides.
function parserFor(body) {
  let event;
  try {
    event = JSON.parse(body.toString());
  } catch {
    return 'constructEvent';
  }
  if (event.object === 'v2.core.event') return 'parseEventNotification';
  if ('detail' in event || 'specversion' in event) return 'unwrap';
  return 'constructEvent';
}

function parse(parser, body, signature) {
  if (parser === 'parseEventNotification') return stripe.parseEventNotification(body, signature, SECRET);
  if (parser === 'constructEvent') return stripe.webhooks.constructEvent(body, signature, SECRET);
  // The SDK unwraps a cloud's envelope only in a call that checks nothing, so the check stands before it.
  stripe.webhooks.signature.verifyHeader(body, signature, SECRET);
  return stripe.webhooks.constructEventWithoutVerification(body);
}

const text = (value) => (value !== null && typeof value === 'object' ? 'object' : String(value ?? null));

// What the SDK made of the fields that odd bodies are odd in.
function readOf(event) {
  const { name, huge, distance } = event.data?.object ?? {};
  const fields = { api_version: event.api_version, request: event.request, name, huge, distance };
  return Object.fromEntries(Object.entries(fields).map(([field, value]) => [field, text(value)]));
}

async function take(request, response) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const { headers } = request;
  const line = {
    event: headers['stripe-guard-event'],
    attempt: headers['stripe-guard-attempt'],
    received_at: headers['stripe-guard-received-at'],
    sha256: createHash('sha256').update(body).digest('hex'),
    parser: parserFor(body),
  };
  try {
    const event = parse(line.parser, body, headers['stripe-signature']);
    Object.assign(line, { verdict: 'accepted', id: event.id, type: event.type, read: readOf(event) });
  } catch (refusal) {
    // Whatever the SDK throws is its answer.
    Object.assign(line, { verdict: 'refused', error: `${refusal.constructor.name}: ${refusal.message}` });
  }
  say(line);
  response.writeHead(line.verdict === 'accepted' ? 200 : 400, { 'Content-Length': 0 }).end();
}

const server = createServer(take);
server.listen(0, '127.0.0.1', () => say({ port: server.address().port }));
process.stdin.on('end', () => process.exit(0)).resume();
