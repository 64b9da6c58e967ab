'use strict';
// Plays every story in a browser by its buttons and keys, and sends what it sees to the page around it. See check.sh.

(async () => {
  const $ = (id) => document.getElementById(id);
  const out = [];
  const errors = [];
  const send = () => {
    const failed = errors.map((error) => `FAILED ${error}`);
    parent.postMessage([...out, ...failed, `${window.innerWidth} pixels`, 'END'].join('\n'), '*');
  };
  // Whatever follows an exception may never come.
  window.addEventListener('error', (event) => { errors.push(`error: ${event.message}`); send(); });
  window.addEventListener('unhandledrejection', (event) => { errors.push(`rejected: ${event.reason}`); send(); });
  console.error = (...text) => errors.push(`console: ${text.join(' ')}`);
  const rest = (ms) => new Promise((done) => { setTimeout(done, ms); });
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  const ensure = (holds, what) => { if (!holds) errors.push(what); };

  async function openLink(hash, holds) {
    location.hash = hash;
    // Virtual time does not wait for a compiler.
    for (let left = 20000; left > 0 && !holds(); left -= 1) await rest(50);
    ensure(holds(), `${hash} does not open`);
  }

  /** What a picture consists of, without places and colours. */
  function structure() {
    const count = (selector) => document.querySelectorAll(selector).length;
    const shown = [...document.querySelectorAll('#rows li')].filter((row) => !row.hidden);
    const within = (selector) => shown.reduce((sum, row) => sum + row.querySelectorAll(selector).length, 0);
    return [
      `arrows ${within('.arrow')}`, `lost ${within('.cross')}`, `notes ${within('.spot')}`,
      `nodes ${count('#queues rect')}`, `watches ${count('#queues .watch')}`, `holders ${count('#clients .holds')}`,
      `fields ${count('#message tbody tr')}`,
    ].join(', ');
  }

  async function toEnd(name) {
    await openLink(`#${name}/0`, () => story().name === name && play.look().now === 0);
    const { steps, stops } = story();
    out.push(`${name}: ${steps.length} steps`);
    const last = steps.length - 1;
    $('speed').value = '20';
    for (let left = 100; play.look().now < last && left > 0; left -= 1) {
      $('run').click();
      for (let wait = 2000; play.look().playing && wait > 0; wait -= 1) await rest(20);
      const { now } = play.look();
      ensure($('text').textContent.length > 10, `${name}/${now}: no text`);
      ensure($('said').textContent.startsWith(`Step ${now}: `), `${name}/${now}: nothing is said`);
      ensure(location.hash === `#${name}/${now}`, `${name}/${now}: the link is ${location.hash}`);
      const asks = !$('question').hidden;
      out.push(`  ${now}: ${structure()}${asks ? ', asks' : ''}`);
      if (asks) {
        const answers = [...document.querySelectorAll('#question button')].map((button) => button.textContent);
        answers.forEach((answer) => [...document.querySelectorAll('#question button')]
          .find((button) => button.textContent.startsWith(answer)).click());
        ensure(document.querySelectorAll('#question .right').length === 1, `${name}/${now}: not one right answer`);
        ensure(document.querySelectorAll('#question .wrong').length === 2, `${name}/${now}: not two wrong answers`);
      }
    }
    ensure(play.look().now === last, `${name} does not end`);
    ensure(stops.filter((stop) => stop.question).length === 1, `${name} does not ask one question`);
    ensure(document.documentElement.scrollWidth <= window.innerWidth, `${name} is too wide`);
    // Backwards, the same pictures.
    const end = structure();
    for (const key of ['Home', 'n', 'p', 'ArrowRight', 'ArrowLeft']) press(key);
    ensure(play.look().now === 0, `${name} does not go back`);
    press('End');
    ensure(structure() === end, `${name} ends differently: ${structure()}`);
  }

  /** A key answers as a click does. */
  async function answer() {
    await openLink('#free/6', () => story().name === 'free' && play.look().now === 6);
    const answered = () => [...document.querySelectorAll('#question button')].map((button) => button.className !== '');
    press('2');
    ensure(answered().join() === 'false,true,false', `a digit answers ${answered()}`);
  }

  /** The storage shows a token once it has said that it is written. */
  async function checkStorage() {
    await openLink('#pause/0', () => story().name === 'pause');
    for (const [step, { label }] of story().steps.entries()) {
      if (label !== 'written') continue;
      const [token] = story().steps[step - 1].label.match(/0x\w+/);
      await openLink(`#pause/${step}`, () => play.look().now === step);
      ensure($('servers').textContent.includes(`token ${token}`), `pause/${step}: the storage has no ${token}`);
    }
  }

  async function openNothing() {
    await openLink('#nosuch/5', () => !$('missing').hidden);
    ensure($('missing').textContent.includes('nosuch'), 'a bad link is not named');
    const links = document.querySelectorAll('#missing a').length;
    ensure(links === $('stories').options.length, `a bad link offers ${links} stories`);
    await openLink('#queue/3', () => story().name === 'queue' && $('missing').hidden);
  }

  const story = () => play.look().story || {};

  /** Follows the example of a bug, whose harm the checker finds. */
  async function tryOut(name, hash, finds) {
    const step = Number(hash.split('/')[4]);
    await openLink(hash, () => story().free && play.look().now === step);
    const seen = $('violation').hidden ? '' : $('violation').textContent;
    ensure(play.look().shown.includes($('text').textContent), `${name}: the example is not explained`);
    ensure(seen.includes(finds) && (finds !== '' || seen === ''), `${name}: the checker says ${seen}`);
    ensure(step > 0 && location.hash === hash, `${name}: the link is ${location.hash}`);
    out.push(`try ${name}: ${structure()}`);
  }

  async function act() {
    await openLink('#try/7/0/0/0', () => story().free && story().free.seed === 7);
    const button = (text) => [...document.querySelectorAll('#act button')].find((it) => it.textContent === text);
    const click = (text) => button(text).click();
    ensure(button('release').disabled && button('write to the storage').disabled, 'an action that does nothing');
    click('contend');
    for (let step = 0; step < 12; step += 1) press('ArrowRight');
    const holds = () => document.querySelectorAll('#clients .holds').length;
    ensure(holds() === 1, 'a contender does not hold the lock');
    click('kill');
    click('release');
    ensure(holds() === 0, 'a release leaves a holder');
    // An action in the past forgets what came later.
    press('Home');
    click('contend');
    ensure(story().free.log.length === 1, 'the past stays');
    ensure($('act').offsetParent !== null, 'no actions in free play');
    await openLink('#queue/0', () => story().name === 'queue');
    ensure($('act').offsetParent === null, 'actions outside of free play');
  }

  /** Opens what `zk-explain --format play` prints of a recording. */
  async function openFile() {
    const files = new DataTransfer();
    files.items.add(new File([JSON.stringify(window.recording)], 'outage.json'));
    $('file').files = files.files;
    $('file').dispatchEvent(new Event('change'));
    for (let left = 100; left > 0 && story().name !== 'recording'; left -= 1) await rest(50);
    press('ArrowRight');
    ensure(play.look().now === 1, 'a recording does not go on');
    press('End');
    ensure(play.look().now === story().steps.length - 1, 'a recording does not end');
    ensure(document.documentElement.scrollWidth <= window.innerWidth, 'a recording is too wide');
    out.push(`recording: ${structure()}`);
  }

  await rest(200);
  await openFile();
  await openNothing();
  await answer();
  for (const option of [...$('stories').options]) {
    if (option.value !== 'try') await toEnd(option.value);
  }
  await checkStorage();
  if (window.hasFree) {
    const { bugs, examples } = play.look();
    for (const [bug, name] of bugs.entries()) await tryOut(name, examples[bug], bug > 0 ? 'VIOLATION' : '');
    await act();
  }
  send();
})();
