'use strict';
// Plays the recorded stories, and the simulator. Data comes from tests/play; each step contains what it changes.

const play = (() => {
  const $ = (id) => document.getElementById(id);
  const SVG = 'http://www.w3.org/2000/svg';
  const SECOND = 1000;
  /** The actions of free play, in the numbers that the simulator gives them. */
  const [CONTEND, RELEASE, WRITE, CUT, LOSE_REPLIES, STOP, EXPIRE, KILL] = [0, 1, 2, 3, 4, 5, 7, 8];
  const ACTIONS = ['contend', 'release', 'write to the storage', 'cut the link', 'lose the replies in flight',
    'stop the process', 'isolate', 'expire the session', 'kill'];
  const BUGS = ['none', "B uses A's GUID", 'no fencing', 'everybody watches the lock path',
    'the lease is not checked', 'other contenders are ignored'];

  /** A link for each bug, to the step at which it does harm, and what happens there. */
  const EXAMPLES = ['5/0/0.0.0_5.5.0_5.0.1_18.2.1_19.2.0/33', '5/1/0.0.0_5.0.1_5.4.1/35',
    '5/2/0.0.0_5.5.0_5.0.1_18.2.1_19.2.0/34', '5/3/0.0.0_5.0.1_12.0.2_20.0.3_30.1.0/51', '5/4/0.0.0_5.0.1_12.6.0/26',
    '5/5/0.0.0_5.0.1/17'].map((link) => `#try/${link}`);
  const SHOWN = [
    'The process of A stops while A holds the lock; B gets the lock and writes, and the storage refuses the late write of A.',
    "The replies to B are lost; B looks for its node by A's GUID, deletes A's node as its own, and A loses the lock.",
    'The process of A stops while A holds the lock; B gets the lock and writes, and the storage accepts the late write of A.',
    'A, B, C and D want the lock; A releases, and wakes every waiter, though only one can be next.',
    'A holds the lock and is cut off from all servers; it still relies on the lock when its lease has ended.',
    'A holds the lock, and B takes it as well.'];

  let stories = [];
  const told = new Map();
  let story = null;
  let states = [];
  let now = 0;
  let timer = null;
  const answered = new Map();

  // ---- Building elements ----------------------------------------------------------------------

  function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  }

  function shape(name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // ---- Loading --------------------------------------------------------------------------------

  function load(file) {
    return new Promise((done, fail) => {
      const script = element('script', { src: file });
      script.onload = () => done();
      script.onerror = () => fail(new Error(`${file} is not there`));
      document.head.append(script);
    });
  }

  async function open(name) {
    if (!told.has(name)) await load(`stories/${name}.js`);
    return told.get(name);
  }

  // ---- State ----------------------------------------------------------------------------------

  /** Adds the state after each step, for each run: what no step has changed stays. */
  function follow(steps, from) {
    for (let at = from; at < steps.length; at += 1) {
      const step = steps[at];
      const before = at > 0 ? states[at - 1] : story.runs.map(() => ({}));
      const run = step.run || 0;
      const after = before.slice();
      after[run] = { ...before[run] };
      for (const part of ['servers', 'clients', 'queue', 'events', 'newest']) {
        if (step[part] !== undefined) after[run][part] = step[part];
      }
      after[run].at = step.at;
      states[at] = after;
    }
    states.length = steps.length;
  }

  function show(next, step) {
    pause();
    story = next;
    states = [];
    follow(story.steps, 0);
    $('missing').hidden = true;
    $('about').textContent = story.about;
    $('stories').value = story.name;
    $('act').hidden = !story.free;
    $('rows').replaceChildren();
    addRows(0);
    go(step);
  }

  // ---- Lanes ----------------------------------------------------------------------------------

  function lanes(run) {
    const cast = story.runs[run];
    const all = cast.clients.map((name, index) => ({ key: `c${index}`, name }));
    for (let server = 0; server < cast.servers; server += 1) {
      all.push({ key: `s${server}`, name: cast.servers > 1 ? `server ${server}` : 'server' });
    }
    if (cast.storage) all.push({ key: 'storage', name: 'storage' });
    all.forEach((lane, index) => { lane.x = (index + 0.5) * 100 / all.length; });
    return all;
  }

  function nameOf(run, key) {
    const lane = lanes(run).find((it) => it.key === key);
    return lane ? lane.name : '';
  }

  function laneClass(state, key) {
    const index = Number(key.slice(1));
    if (key[0] === 'c') {
      const [activity, , session] = state.clients[index];
      return session === 'stopped' ? 'stopped' : activity;
    }
    if (key === 'storage') return '';
    return state.servers[index][0] === 'dead' ? 'dead' : '';
  }

  function time(step) {
    const first = story.steps[0].at;
    const ms = step.at - first;
    return ms < SECOND ? `${ms.toFixed(1)} ms` : `${(ms / SECOND).toFixed(2)} s`;
  }

  function sentence(step) {
    const run = step.run || 0;
    if (step.from) {
      return `${nameOf(run, step.from)} → ${nameOf(run, step.to)}: ${step.label}`;
    }
    return step.lane ? `${nameOf(run, step.lane)} ${step.label}` : step.label;
  }

  function addRows(from) {
    for (let at = from; at < story.steps.length; at += 1) {
      const step = story.steps[at];
      const run = step.run || 0;
      const all = lanes(run);
      const state = states[at][run];
      const picture = shape('svg', { 'aria-hidden': 'true' });
      for (const lane of all) {
        const x = `${lane.x}%`;
        picture.append(shape('line', { x1: x, x2: x, y1: 0, y2: '100%', class: `lane ${laneClass(state, lane.key)}` }));
      }
      const x = (key) => all.find((lane) => lane.key === key).x;
      if (step.from) {
        const [start, end] = [x(step.from), x(step.to)];
        const stop = step.lost ? (start + end) / 2 : end;
        const move = shape('svg', { class: 'move', y: '100%', overflow: 'visible' });
        move.append(shape('line', { x1: `${start}%`, x2: `${stop}%`, y1: -11, y2: -11, class: 'arrow' }));
        const tip = shape('svg', { x: `${stop}%`, y: -11, overflow: 'visible' });
        if (step.lost) {
          tip.append(shape('path', { d: 'M-5-5L5 5M-5 5L5-5', class: 'cross' }));
        } else {
          tip.append(shape('path', { d: end > start ? 'M0 0l-8-4v8z' : 'M0 0l8-4v8z', class: 'head' }));
        }
        move.append(tip);
        picture.append(move);
      } else if (step.lane) {
        const place = shape('svg', { y: '100%', overflow: 'visible' });
        place.append(shape('circle', { cx: `${x(step.lane)}%`, cy: -11, r: 5, class: 'spot' }));
        picture.append(place);
      }
      const label = element('span', { className: 'label' },
        element('span', { className: 'time', textContent: time(step) }), element('span', { textContent: sentence(step) }));
      const button = element('button', { className: step.style, tabIndex: -1, onclick: () => { pause(); go(at); } });
      button.append(picture, label);
      $('rows').append(element('li', {}, button));
    }
  }

  // ---- Drawing a step -------------------------------------------------------------------------

  function draw() {
    const step = story.steps[now];
    const run = step.run || 0;
    [...$('rows').children].forEach((row, at) => {
      row.hidden = at > now || (story.steps[at].run || 0) !== run;
      row.classList.toggle('now', at === now);
      if (at === now) row.setAttribute('aria-current', 'step'); else row.removeAttribute('aria-current');
    });
    $('run-title').textContent = story.runs[run].title;
    const many = $('lanes').clientWidth / lanes(run).length < 75;
    $('lanes').replaceChildren(...lanes(run).map((lane) => {
      const name = many ? lane.name.replace('server ', 's').replace('storage', 'store') : lane.name;
      const made = element('span', { textContent: name });
      made.style.left = `calc(60px + (100% - 76px) * ${lane.x / 100})`;
      return made;
    }));
    drawTold();
    drawQueues(run);
    drawClients(run);
    drawMessage(step);
    free.draw();
    // Last, since labels wrap once the page has its scroll bar.
    const current = $('rows').children[now];
    $('rows').scrollTop = current.offsetTop + current.offsetHeight - $('rows').clientHeight + 8;
    const last = story.steps.length - 1;
    Object.assign($('slide'), { max: last, value: now });
    $('slide').setAttribute('aria-valuetext', `step ${now} of ${last}`);
    $('where').textContent = `${now} / ${last}`;
    const what = `${sentence(step).replace(/\.$/, '')}${step.lost ? ' (lost)' : ''}`;
    $('said').textContent = `Step ${now}: ${what}. ${summary(states[now][run], run)}`;
    // A browser refuses many changes in a short time.
    if (timer === null) showLink();
    document.title = `${story.title}: a lock on ZooKeeper, step by step`;
  }

  /** Says who holds and who waits. */
  function summary(state, run) {
    const names = story.runs[run].clients;
    const those = (activity) => names.filter((_, index) => state.clients[index][0] === activity);
    const [holders, waiters] = [those('holds'), those('waits')];
    const does = (who, verb) => `${who.join(', ')} ${verb}${who.length > 1 ? '' : 's'}.`;
    const holds = holders.length ? does(holders, 'hold') : 'Nobody holds.';
    return waiters.length ? `${holds} ${does(waiters, 'wait')}` : holds;
  }

  function lastStop() {
    const before = story.stops.filter((stop) => stop.step <= now);
    return before[before.length - 1];
  }

  function drawTold() {
    const stop = lastStop();
    const said = free.example() || (stop ? stop.text : story.about);
    $('text').replaceChildren(...withLinks(said));
    const asks = stop && stop.step === now && stop.question;
    $('question').hidden = !asks;
    if (asks) drawQuestion(stop);
    const run = story.steps[now].run || 0;
    const broken = story.steps.slice(0, now + 1)
      .filter((step) => (step.run || 0) === run && step.label.startsWith('VIOLATION'));
    $('violation').hidden = broken.length === 0;
    const seed = story.free ? ` (seed ${story.free.seed})` : '';
    const text = broken.length ? `${broken[broken.length - 1].label}${seed}` : '';
    if ($('violation').textContent !== text) $('violation').textContent = text;
  }

  /** Makes an element of each `[text](#link)`. */
  function withLinks(text) {
    return text.split(/(\[[^\]]+\]\(#[^)]+\))/).map((part) => {
      const [, words, href] = part.match(/^\[(.+)\]\((#.+)\)$/) || [];
      return href ? element('a', { href, textContent: words }) : part;
    });
  }

  function drawQuestion(stop) {
    const key = `${story.name}/${stop.step}`;
    const chosen = answered.get(key) || [];
    const shift = stop.question.length % stop.answers.length;
    const order = stop.answers.map((_, index) => (index + shift) % stop.answers.length);
    const buttons = order.map((index, place) => {
      const [answer, why] = stop.answers[index];
      const isChosen = chosen.includes(index);
      const button = element('button', { type: 'button', textContent: `${place + 1}. ${answer}` });
      if (isChosen) {
        button.className = index === 0 ? 'right' : 'wrong';
        button.append(element('span', { textContent: ` ${index === 0 ? '✓' : '✗'} ${why}` }));
      }
      button.onclick = () => {
        answered.set(key, [...chosen.filter((it) => it !== index), index]);
        drawQuestion(stop);
        $('said').textContent = `${index === 0 ? 'Right' : 'Wrong'}. ${why}`;
        $('question').querySelectorAll('button')[order.indexOf(index)].focus();
      };
      return button;
    });
    $('question').replaceChildren(element('p', {}, element('strong', { textContent: stop.question })), ...buttons);
  }

  function drawQueues(current) {
    $('queues').replaceChildren(...story.runs.map((cast, run) => {
      const state = states[now][run];
      const figure = element('figure', { className: run === current ? '' : 'other' });
      if (!state.queue) return figure;
      if (story.runs.length > 1) {
        const woken = state.events.reduce((sum, count) => sum + count, 0);
        figure.append(element('figcaption', {}, `${cast.title}: `,
          element('strong', { textContent: `${woken} waiters woken` })));
      }
      figure.append(queue(state, cast));
      return figure;
    }));
  }

  /** The nodes from the lock path down, and a curve from each waiter's node to the one that it watches. */
  function queue(state, cast) {
    const [ROW, GUTTER] = [26, 46];
    const said = [];
    const picture = shape('svg', { role: 'img', height: state.queue.length * ROW + 2 });
    const y = (row) => row * ROW + ROW / 2;
    state.queue.forEach(([path, owner, zxid, watchers], row) => {
      const activity = owner === null ? '' : state.clients[owner][0];
      picture.append(shape('rect', { x: GUTTER, y: row * ROW + 2, style: `width: calc(100% - ${GUTTER + 2}px)`, height: ROW - 4, rx: 4, class: activity }));
      const label = shape('text', { x: GUTTER + 6, y: y(row) + 4 });
      if (owner !== null) {
        label.append(shape('tspan', { class: 'owner' }, `${cast.clients[owner]}  `), path.replace(/^.*\//, '…/'));
        const watching = watchers.filter((it) => it !== owner).map((it) => cast.clients[it]);
        said.push(`${cast.clients[owner]}${watching.length ? `, watched by ${watching.join(', ')}` : ''}`);
      } else {
        label.setAttribute('class', 'parent');
        label.append(path);
      }
      label.append(shape('title', {}, `${path}, created by ${zxid}`));
      picture.append(label);
      watchers.forEach((watcher, index) => {
        const own = state.queue.findIndex((node, at) => at !== row && node[1] === watcher && node[0] !== path);
        if (watcher === owner) return;
        // A client without a node yet has no end of the curve.
        const from = own < 0 ? row : own;
        const deep = Math.min(GUTTER - 6, 8 + Math.abs(from - row) * 6);
        const target = y(row) + Math.min(8, index * 2) - 3;
        if (from !== row) {
          picture.append(shape('path', {
            class: 'watch', d: `M${GUTTER} ${y(from)}C${GUTTER - deep} ${y(from)} ${GUTTER - deep} ${target} ${GUTTER - 5} ${target}`,
          }));
        }
        picture.append(shape('path', { class: 'tip', d: `M${GUTTER} ${target}l-7-3v6z` }));
      });
    });
    picture.setAttribute('aria-label', `The queue: ${said.join('; ') || 'empty'}`);
    return picture;
  }

  function drawClients(run) {
    const state = states[now][run];
    const WORDS = { idle: '', enters: 'enters the queue', waits: 'waits', holds: 'HOLDS', unsure: 'may hold it' };
    $('clients').replaceChildren(...state.clients.map((client, index) => {
      const [activity, token, session, server, id, lease, timeout] = client;
      const item = element('li', { className: activity });
      const left = lease === null ? 0 : Math.max(0, Math.min(timeout, lease - state.at));
      const does = activity === 'holds' && left === 0 ? 'thinks that it HOLDS' : WORDS[activity];
      const what = [does, token && `token ${token}`].filter(Boolean).join(', ');
      item.append(element('strong', { textContent: story.runs[run].clients[index] }), what ? ` ${what}` : '');
      const part = timeout ? left / timeout : 0;
      const bar = element('span', { className: part < 0.34 ? 'bar low' : 'bar' }, element('i'));
      bar.firstChild.style.width = `${part * 100}%`;
      const where = server === null ? session : `server ${server}`;
      item.append(bar, element('span', { className: 'soft', title: `session ${id}`,
        textContent: `${where}; lease ${(left / SECOND).toFixed(1)} of ${(timeout / SECOND).toFixed(0)}\u00a0s` }));
      return item;
    }));
    const servers = state.servers.map(([role, zxid], index) => {
      const text = role === 'dead' ? ' dead' : `${role && ` ${role},`} zxid ${zxid}`;
      return element('li', { className: role }, element('strong', { textContent: `server ${index}` }), text);
    });
    if (story.runs[run].storage) {
      const text = state.newest ? ` newest token ${state.newest}` : ' not written yet';
      servers.push(element('li', {}, element('strong', { textContent: 'storage' }), text));
    }
    $('servers').replaceChildren(...servers);
  }

  function drawMessage(step) {
    if (!step.fields) return $('message').replaceChildren();
    const bytes = step.bytes.match(/../g);
    const table = element('table');
    // A recording has the times of one side only.
    const trip = step.sent === undefined ? '' : `, ${(step.at - step.sent).toFixed(1)} ms on its way`;
    table.append(element('caption', { textContent: `${sentence(step)} (${bytes.length} bytes${step.lost ? ', lost' : trip})` }));
    const head = ['at', 'bytes', 'type', 'field and value'];
    const classes = ['at', 'hex', 'type', ''];
    table.append(element('thead', {}, element('tr', {},
      ...head.map((text, index) => element('th', { textContent: text, scope: 'col', className: classes[index] })))));
    const rows = step.fields.map(([start, end, type, path, value]) => element('tr', {},
      element('td', { textContent: start }),
      element('td', { textContent: bytes.slice(start, end).join(' ') }),
      element('td', { textContent: type }),
      element('td', { textContent: `${path} = ${value}` })));
    table.append(element('tbody', {}, ...rows));
    return $('message').replaceChildren(table);
  }

  // ---- Moving ---------------------------------------------------------------------------------

  function go(step) {
    now = Math.max(0, Math.min(step, story.steps.length - 1));
    draw();
  }

  /** Takes a step. In free play, time passes at the end. Returns whether there was one. */
  function forward() {
    if (now + 1 >= story.steps.length && story.free) {
      free.advance();
    }
    if (now + 1 >= story.steps.length) return false;
    go(now + 1);
    return true;
  }

  function pause() {
    if (timer !== null) showLink();
    clearTimeout(timer);
    timer = null;
    $('run').textContent = '▶ Play';
    $('run').setAttribute('aria-label', 'Play');
  }

  function run() {
    if (timer !== null) return pause();
    if (now + 1 >= story.steps.length && !story.free) go(0);
    $('run').textContent = '⏸ Pause';
    $('run').setAttribute('aria-label', 'Pause');
    const tick = () => {
      const moved = forward();
      if (!moved || story.stops.some((stop) => stop.step === now)) return pause();
      const step = story.steps[now];
      timer = setTimeout(tick, (step.from ? 1100 : 1500) / Number($('speed').value));
    };
    timer = setTimeout(tick, 150 / Number($('speed').value));
  }

  function toStop(direction) {
    pause();
    const steps = story.stops.map((stop) => stop.step);
    const next = direction > 0 ? steps.find((step) => step > now) : steps.reverse().find((step) => step < now);
    if (next !== undefined) go(next);
    else if (story.free && direction > 0) forward();
    else go(direction > 0 ? story.steps.length - 1 : 0);
  }

  const KEYS = {
    ArrowRight: () => { pause(); forward(); },
    ArrowLeft: () => { pause(); go(now - 1); },
    Home: () => { pause(); go(0); },
    End: () => { pause(); go(story.steps.length - 1); },
    n: () => toStop(1),
    p: () => toStop(-1),
    ' ': run,
  };

  document.addEventListener('keydown', (event) => {
    const kind = event.target.tagName;
    if (!story || event.ctrlKey || event.altKey || event.metaKey || kind === 'INPUT' || kind === 'SELECT') return;
    if (event.key === ' ' && kind === 'BUTTON') return;
    const answers = $('question').hidden ? [] : $('question').querySelectorAll('button');
    const answer = /^[1-9]$/.test(event.key) && answers[event.key - 1];
    const key = answer ? () => answer.click() : KEYS[event.key];
    if (key) {
      event.preventDefault();
      key();
    }
  });

  // ---- Links ----------------------------------------------------------------------------------

  function link() {
    if (!story.free) return `#${story.name}/${now}`;
    const { seed, bug, log } = story.free;
    return `#try/${seed}/${bug}/${log.map((entry) => entry.slice(0, 3).join('.')).join('_') || '0'}/${now}`;
  }

  function showLink() {
    // Whole, since a page with a base would resolve it.
    history.replaceState(null, '', location.href.split('#')[0] + link());
  }

  async function followLink() {
    const [name, ...rest] = location.hash.slice(1).split('/');
    try {
      if (name === 'try') {
        const [seed, bug, log, step] = rest;
        const entries = (log || '0').split('_').map((entry) => entry.split('.').map(Number));
        await free.open(Number(seed) || 5, Number(bug) || 0, entries.filter((entry) => entry.length === 3), Number(step) || 0);
      } else {
        const isKnown = stories.some((it) => it.name === name);
        if (isKnown) show(await open(name), Number(rest[0]) || 0);
        else if (!story) show(await open(stories[0].name), 0);
        if (!isKnown && name) listStories(name);
      }
    } catch (error) {
      $('text').textContent = name === 'try'
        ? `Free play is not built here: ${error.message}. Run tests/play/build.sh, and load this page again.`
        : `This story cannot be read: ${error.message}.`;
    }
  }

  /** Says that a link leads nowhere, and where others lead. */
  function listStories(name) {
    pause();
    const links = [...$('stories').options].map((it) => element('li', {},
      element('a', { href: linkTo(it.value), textContent: it.textContent })));
    $('missing').replaceChildren(`There is no story “${name}” here. These are all:`, element('ul', {}, ...links));
    $('missing').hidden = false;
  }

  const linkTo = (name) => (name === 'try' ? '#try/5/0/0/0' : `#${name}/0`);

  // ---- Free play ------------------------------------------------------------------------------

  const free = (() => {
    let exports = null;
    const buttons = [];
    let packed = null;

    async function start() {
      if (exports) return;
      if (!packed) await load('free.js');
      const zipped = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
      const stream = new Blob([zipped]).stream().pipeThrough(new DecompressionStream('gzip'));
      const { instance } = await WebAssembly.instantiate(await new Response(stream).arrayBuffer(), {});
      exports = instance.exports;
    }

    function output(length) {
      if (!length) return [];
      const bytes = new Uint8Array(exports.memory.buffer, exports.output_address(), length);
      return JSON.parse(new TextDecoder().decode(bytes));
    }

    /** Adds steps, each with the number of advances before it. */
    function add(steps) {
      const from = story.steps.length;
      story.steps.push(...steps.map((step) => ({ ...step, advances: story.free.advances })));
      follow(story.steps, from);
      addRows(from);
    }

    function advance() {
      story.free.advances += 1;
      add(output(exports.advance()));
    }

    function perform(action, who) {
      story.free.log.push([story.free.advances, action, who, story.steps.length]);
      add(output(exports.act(action, who)));
    }

    /** Plays a film again up to its actions. */
    function again(seed, bug, log) {
      const { cast, steps } = output(exports.start(seed, bug));
      const text = 'You act. Choose a client and what it does, or what happens to it; then play, or step. The checker of '
        + 'the simulator watches. With a bug switched on, try to make it find a violation.';
      show({
        name: 'try', title: 'Free play', about: 'Stop, cut, kill: does the lock hold?', runs: [cast], stops: [{ step: 0, text }],
        steps: steps.map((step) => ({ ...step, advances: 0 })), free: { seed, bug, log: [], advances: 0 },
      }, 0);
      for (const [advances, action, who] of log) {
        while (story.free.advances < advances) advance();
        perform(action, who);
      }
    }

    function act(action, who) {
      pause();
      const { seed, bug, log } = story.free;
      if (now + 1 < story.steps.length) {
        const { advances } = story.steps[now];
        again(seed, bug, log.filter((entry) => entry[3] <= now));
        while (story.free.advances < advances) advance();
      }
      perform(action, who);
      go(story.steps.length - 1);
    }

    async function openFree(seed, bug, log, step) {
      await start();
      buildForm();
      again(seed, bug, log);
      for (let left = 10000; story.steps.length <= step && left > 0; left -= 1) advance();
      $('seed').value = seed;
      $('bug').value = bug;
      go(step);
    }

    function buildForm() {
      if ($('who')) return;
      const choice = (id, names) => {
        const select = element('select', { id });
        names.forEach((name, index) => select.append(element('option', { value: index, textContent: name })));
        return select;
      };
      const button = (action, who) => {
        const made = element('button', {
          type: 'button', textContent: ACTIONS[action], onclick: () => act(action, Number($(who).value)),
        });
        buttons.push([made, action, who]);
        return made;
      };
      const client = element('fieldset', {}, element('legend', { textContent: 'Client' }),
        choice('who', ['A', 'B', 'C', 'D']));
      for (let action = CONTEND; action < KILL; action += 1) client.append(button(action, 'who'));
      client.firstChild.nextSibling.setAttribute('aria-label', 'Client');
      const server = element('fieldset', {}, element('legend', { textContent: 'Server' }), choice('which', ['0', '1', '2']),
        button(KILL, 'which'));
      $('act').append(client, server);
      $('which').setAttribute('aria-label', 'Server');
      const seed = element('input', { id: 'seed', type: 'number', min: 0, max: 4294967295, value: 5 });
      const fresh = element('button', { type: 'button', textContent: 'start again' });
      fresh.onclick = () => openFree(Number(seed.value) >>> 0, Number($('bug').value), [], 0);
      const settings = element('fieldset', {}, element('label', {}, 'Bug ', choice('bug', BUGS)),
        element('label', {}, 'Seed ', seed), fresh);
      const example = element('button', { type: 'button', textContent: 'show an example' });
      example.onclick = () => { location.hash = EXAMPLES[Number($('bug').value)]; };
      settings.append(example);
      $('act').append(settings);
      $('bug').onchange = fresh.onclick;
      [$('who').onchange, $('which').onchange] = [draw, draw];
      $('act').onsubmit = (event) => event.preventDefault();
    }

    /** Returns whether an action does anything at this step. */
    function can(action, who) {
      const [{ servers, clients }] = states[now];
      if (action === KILL) return servers[who][0] !== 'dead';
      const [activity, token, session] = clients[who];
      const isStopped = session === 'stopped';
      const hasConnection = isStopped || ['connected', 'read-only'].includes(session);
      if (action === CONTEND) return activity === 'idle' && !isStopped;
      if (action === RELEASE) return activity !== 'idle' && !isStopped;
      // A stopped process that writes runs again first.
      if (action === WRITE) return token !== null;
      if (action === CUT || action === LOSE_REPLIES) return hasConnection;
      if (action === STOP) return !isStopped;
      return action !== EXPIRE || session !== 'renewing';
    }

    function draw() {
      if (!story.free) return;
      for (const [button, action, who] of buttons) button.disabled = !can(action, Number($(who).value));
    }

    /** Returns what an example shows, if this is one. */
    function example() {
      if (!story.free) return null;
      const run = (address) => address.replace(/\d+$/, '');
      return run(link()) === run(EXAMPLES[story.free.bug]) ? SHOWN[story.free.bug] : null;
    }

    return { advance, draw, example, open: openFree, packed: (text) => { packed = text; } };
  })();

  // ---- Start ----------------------------------------------------------------------------------

  $('first').onclick = KEYS.Home;
  $('back').onclick = KEYS.ArrowLeft;
  $('next').onclick = KEYS.ArrowRight;
  $('stop').onclick = KEYS.n;
  $('run').onclick = run;
  $('slide').oninput = () => { pause(); go(Number($('slide').value)); };
  $('file').onchange = async () => {
    try {
      show(JSON.parse(await $('file').files[0].text()), 0);
    } catch (error) {
      $('text').textContent = `This is not what zk-explain --format play prints: ${error.message}.`;
    }
  };
  $('stories').onchange = () => { location.hash = linkTo($('stories').value); };
  window.addEventListener('hashchange', followLink);
  window.addEventListener('resize', () => { if (story) draw(); });

  return {
    index(all) {
      stories = all;
      $('stories').append(...all.map((it, index) => element('option', { value: it.name, textContent: `${index + 1}. ${it.title}` })),
        element('option', { value: 'try', textContent: 'Free play: you act' }));
      followLink();
    },
    story(it) { told.set(it.name, it); },
    free: free.packed,
    /** For tests. */
    look: () => ({ story, now, playing: timer !== null, examples: EXAMPLES, shown: SHOWN, bugs: BUGS }),
  };
})();
