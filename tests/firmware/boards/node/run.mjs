// Runs a program for WebAssembly: node run.mjs <image>. Its UART is a socket, as standard input.

import { randomBytes } from 'node:crypto';
import { readFileSync, readSync, writeSync } from 'node:fs';

const [UART, CONSOLE] = [0, 1];
const received = Buffer.alloc(256);
let [from, to] = [0, 0];
const never = new Int32Array(new SharedArrayBuffer(4));

// Returns how many bytes have arrived. The socket does not block.
function read() {
  try {
    const count = readSync(UART, received);
    return count || process.exit(1);
  } catch (error) {
    if (error.code === 'EAGAIN') return 0;
    throw error;
  }
}

const board = {
  milliseconds: () => BigInt(Math.floor(performance.now())),
  seed: () => randomBytes(8).readBigUInt64LE(),
  sleep: () => Atomics.wait(never, 0, 0, 1),
  send: (byte) => writeSync(UART, Uint8Array.of(byte)),
  receive() {
    if (from === to) [from, to] = [0, read()];
    return from < to ? received[from++] : -1;
  },
  print: (at, length) => writeSync(CONSOLE, new Uint8Array(exports.memory.buffer, at, length)),
  exit: (code) => process.exit(code),
};

const { instance: { exports } } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { board });
exports.main();
