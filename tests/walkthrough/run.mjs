// Keeps the README's walk-through true: runs the commands of its blocks marked ```console walkthrough, in their order, in
// one shell, against a cluster of MEMBERS=3 on free ports, and compares what they print with what is shown.
//
//   node tests/walkthrough/run.mjs [README.md]        BIN: the folder with the daemons (build)
//
// In what is shown, `...` stands for anything, and what varies from run to run (milliseconds, pids, counts of inserts,
// addresses, a member's number) for any of its kind. A command that only looks is run again for a while until it shows what
// it should: a cluster takes its time to notice.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), '../..');
const readme = path.resolve(process.argv[2] ?? path.join(root, 'README.md'));
const lookAgainMs = 60000, looks = 5, commandMs = 120000, readmePort = 27017, daemons = 10;

/** The commands of the marked blocks: [{ line, command, shown: [lines] }]. */
function extract(text) {
  const steps = [];
  let inside = false;
  text.split('\n').forEach((content, i) => {
    if (content.startsWith('```')) inside = content === '```console walkthrough';
    else if (inside && content.startsWith('$ ')) steps.push({ line: i + 1, command: content.slice(2), shown: [] });
    else if (inside) steps.at(-1).shown.push(content);
  });
  return steps;
}

const varying = [
  [/\\\.\\\.\\\./g, '[^]*'],
  [/\b\d+(?= ms\b)/g, '\\d+'],
  [/(?<=\bpid )\d+/g, '\\d+'],
  [/(?<=\binsert )\d+/g, '\\d+'],
  [/\b\d+(?= inserts\b)/g, '\\d+'],
  [/127\\\.0\\\.0\\\.1:\d+/g, '127\\.0\\.0\\.1:\\d+'],
  [/\b(cfg|sh1|sh2)-\d\b/g, '$1-\\d'],
];
function pattern(shown) {
  let text = shown.join('\n').replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  for (const [what, by] of varying) text = text.replace(what, by);
  return new RegExp(`^${text}$`);
}

/** A port that is free, and with it those after it. Below the range of outgoing connections. */
async function freePorts(n) {
  const free = port => new Promise(r => { const s = net.createServer(); s.on('error', () => r(false)); s.listen(port, '127.0.0.1', () => s.close(() => r(true))); });
  for (;;) {
    const first = 20000 + Math.floor(Math.random() * 7000);
    const all = await Promise.all([...Array(n).keys()].map(i => free(first + i)));
    if (all.every(Boolean)) return first;
  }
}

/** A shell that stays: run(command) gives what it printed. */
class Shell {
  constructor(cwd, env, prepare) {
    this.process = spawn('bash', ['--norc', '--noprofile'], { cwd, env, stdio: ['pipe', 'pipe', 'pipe'] });
    this.output = '';
    for (const s of [this.process.stdout, this.process.stderr]) s.on('data', d => { this.output += d; this.wake?.(); });
    this.process.stdin.write(`exec 2>&1\n${prepare}\n`);
  }
  async run(command) {
    const end = `-- end ${Math.random()} --`, until = Date.now() + commandMs;
    this.output = '';
    this.process.stdin.write(`${command}\necho; echo "${end}"\n`);
    while (!this.output.includes(`\n${end}\n`)) {
      if (Date.now() > until) throw new Error(`no end of: ${command}\n${this.output}`);
      await new Promise(r => { this.wake = r; setTimeout(r, 200); });
    }
    return this.output.slice(0, this.output.indexOf(`\n${end}\n`)).trimEnd();
  }
}

async function startCluster(env) {
  const script = path.join(root, 'deploy/local-cluster.sh');
  const cluster = spawn(script, ['start'], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise(r => cluster.on('exit', r));
  let said = '';
  cluster.stdout.on('data', d => { said += d; });
  const until = Date.now() + commandMs;
  while (!said.includes('The cluster is up')) {
    if (cluster.exitCode !== null || Date.now() > until) throw new Error(`the cluster did not start: ${said}`);
    await new Promise(r => setTimeout(r, 50));
  }
  return async () => { spawnSync(script, ['stop'], { env, stdio: 'ignore' }); await ended; };
}

const sleep = ms => new Promise(r => setTimeout(r, ms));
const onlyLooks = command => /^(mongosh|grep|tail|cat)\b/.test(command) && !/insert|shardCollection|&$/.test(command);

async function check(shell, step, localize) {
  const expected = pattern(step.shown.map(localize)), until = Date.now() + lookAgainMs;
  for (let look = 1;; look++) {
    const printed = await shell.run(localize(step.command));
    if (expected.test(printed)) return true;
    if (!onlyLooks(step.command) || (Date.now() > until && look >= looks)) { // a slow machine looks seldom
      console.log(`NOT OK  line ${step.line}: ${step.command}\n  shown:\n${step.shown.join('\n')}\n  printed:\n${printed}`);
      return false;
    }
    await sleep(500);
  }
}

const steps = extract(fs.readFileSync(readme, 'utf8'));
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'walkthrough-'));
const port = await freePorts(daemons);
const env = { ...process.env, PORT: String(port), MEMBERS: '3', DATA: path.join(folder, 'data'), BIN: path.resolve(process.env.BIN ?? path.join(root, 'build')) };
const localize = text => text.replace(/127\.0\.0\.1:(270\d\d)/g, (_, p) => `127.0.0.1:${port + Number(p) - readmePort}`);
fs.symlinkSync(path.join(root, 'tests'), path.join(folder, 'tests'));
let passed = 0, failed = 0;
const stop = await startCluster(env);
try {
  const shell = new Shell(folder, env, `
    mongosh() { '${process.execPath}' '${root}/tests/node_modules/mongosh/bin/mongosh.js' "$@"; }
    make() { '${root}/deploy/local-cluster.sh' "$@"; }`);
  for (const step of steps) {
    const begin = Date.now(), ok = await check(shell, step, localize);
    if (ok) passed++; else failed++;
    if (ok) console.log(`ok      ${step.command.slice(0, 90)}   (${Date.now() - begin} ms)`);
    if (!ok) break; // what follows builds on it
  }
  shell.process.kill();
} finally {
  await stop();
}
if (!failed) fs.rmSync(folder, { recursive: true });
else console.log(`data and logs: ${folder}`);
if (!steps.length) failed++;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
