// node-zookeeper-client under the conformance suite: docs/conformance.md describes the lines.
//
//     npm install --prefix target/node node-zookeeper-client@1.1.3
//     NODE_PATH=target/node/node_modules conform -- node tests/peers/conform/shim.js
'use strict';

const readline = require('readline');
const zookeeper = require('node-zookeeper-client');

const { CreateMode, State } = zookeeper;
const EVENTS = { 1: 'created', 2: 'deleted', 3: 'changed', 4: 'children' };
let client;

const say = (line) => process.stdout.write(line.trimEnd() + '\n');
const error = (reason) =>
  'error ' + (reason.code !== undefined ? reason.code : 'other ' + reason.message);

function onState(state) {
  const names = new Map([
    [State.SYNC_CONNECTED, 'connected'],
    [State.CONNECTED_READ_ONLY, 'read-only'],
    [State.DISCONNECTED, 'suspended'],
    [State.EXPIRED, 'expired'],
    [State.AUTH_FAILED, 'auth-failed'],
  ]);
  say('state ' + (names.get(state) || 'closed'));
}

const watcher = () => (event) => {
  if (EVENTS[event.type]) {
    say(`event ${EVENTS[event.type]} ${event.path}`);
  }
};

function data(value) {
  if (value === undefined || value === null) {
    return 'null';
  }
  return value.length > 100 ? `bytes:${value.length}` : `"${value}"`;
}

const names = (value) => (value.length > 10 ? `names:${value.length}` : value.join(' '));

// Numbers of 8 bytes are buffers.
const long = (value) => (Buffer.isBuffer(value) ? value.readBigInt64BE() : value);

function stat(value) {
  const fields = ['czxid', 'mzxid', 'ctime', 'mtime', 'version', 'cversion', 'aversion',
    'ephemeralOwner', 'dataLength', 'numChildren', 'pzxid'];
  return value ? fields.map((field) => String(long(value[field]))).join(' ') : 'none';
}

function answer(number, text) {
  return (reason, ...results) =>
    say(`${number} ${reason ? error(reason) : 'ok ' + text(...results)}`);
}

function connect(number, servers, options) {
  const timeout = options.find((option) => option.startsWith('timeout='));
  if (options.includes('read-only')) {
    // The handshake that it sends has no such flag.
    say(`${number} unsupported`);
    return;
  }
  client = zookeeper.createClient(servers, {
    sessionTimeout: timeout ? Number(timeout.slice(8)) : 30000,
    spinDelay: 100,
  });
  client.on('state', onState);
  client.connect();
  say(`${number} ok`);
}

function mode(words) {
  const sequential = words.includes('sequential');
  if (words.includes('ephemeral')) {
    return sequential ? CreateMode.EPHEMERAL_SEQUENTIAL : CreateMode.EPHEMERAL;
  }
  return sequential ? CreateMode.PERSISTENT_SEQUENTIAL : CreateMode.PERSISTENT;
}

function multi(number, text) {
  const transaction = client.transaction();
  for (const operation of text.split(', ')) {
    const [name, path, ...rest] = operation.split(' ');
    if (name === 'create') {
      transaction.create(path, Buffer.from(rest[0]));
    } else if (name === 'set') {
      transaction.setData(path, Buffer.from(rest[0]), Number(rest[1]));
    } else if (name === 'delete') {
      transaction.remove(path, Number(rest[0]));
    } else {
      transaction.check(path, Number(rest[0]));
    }
  }
  transaction.commit((reason, results) => {
    if (!reason) {
      say(`${number} ok ${results.length}`);
      return;
    }
    const failed = (results || []).findIndex((it) => it.err && it.err !== 0 && it.err !== -2);
    const code = failed < 0 ? error(reason) : `error ${results[failed].err} at ${failed}`;
    say(`${number} ${code}`);
  });
}

function run(number, command, ...words) {
  const [path] = words;
  const watch = words[words.length - 1] === 'watch' ? [watcher()] : [];
  const none = () => '';
  switch (command) {
    case 'connect': return connect(number, path, words.slice(1));
    case 'close':
      client.close();
      return say(`${number} ok`);
    case 'get':
      return client.getData(path, ...watch,
        answer(number, (value, it) => `${data(value)} ${it.version}`));
    case 'exists': return client.exists(path, ...watch, answer(number, stat));
    case 'children': return client.getChildren(path, ...watch, answer(number, names));
    case 'create':
      if (words.includes('container')) {
        return say(`${number} unsupported`);
      }
      return client.create(path, Buffer.from(words[1]), mode(words.slice(2)),
        answer(number, (name) => name));
    case 'set':
      return client.setData(path, Buffer.from(words[1]), Number(words[2]),
        answer(number, (it) => String(it.version)));
    case 'delete': return client.remove(path, Number(words[1]), answer(number, none));
    case 'acl': return client.getACL(path, answer(number, (acl) => String(acl.length)));
    case 'auth':
      // The client does not report the reply.
      client.addAuthInfo(words[0], Buffer.from(words[1]));
      return say(`${number} ok`);
    case 'session':
      return say(`${number} ok 0x${client.getSessionId().toString('hex').replace(/^0+/, '')}`);
    case 'multi': return multi(number, words.join(' '));
    default: return say(`${number} unsupported`);
  }
}

say('client node-zookeeper-client ' + require('node-zookeeper-client/package.json').version);
const input = readline.createInterface({ input: process.stdin });
input.on('line', (line) => {
  const [number, ...words] = line.split(' ');
  try {
    run(number, ...words);
  } catch (reason) {
    say(`${number} ${error(reason)}`);
  }
});
input.on('close', () => process.exit(0));
