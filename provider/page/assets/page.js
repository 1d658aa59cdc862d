// The page of one virtual node. It shows text as text: nothing that comes from the node
// is ever read as HTML. All paths are relative, as the page may be below any prefix.
'use strict';

const stages = ['Forming', 'Submitting', 'Queued', 'Starting', 'Running', 'Draining', 'Ended'];
const byId = (id) => document.getElementById(id);
const open = new Set(); // the gangs whose slots are shown
let latest = null;
let source = null;
let poll = 0;

// el makes an element with classes, text and children.
function el(tag, classes, ...children) {
  const e = document.createElement(tag);
  if (classes) e.className = classes;
  for (const c of children) e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  return e;
}

// colour is a gang's own, the same each time.
function colour(id) {
  let h = 0;
  for (const c of id) h = (h * 31 + c.codePointAt(0)) >>> 0;
  return 'c' + (h % 8);
}

function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 90) return s + ' s';
  if (s < 5400) return Math.round(s / 60) + ' min';
  if (s < 172800) return Math.round(s / 3600) + ' h';
  return Math.round(s / 86400) + ' d';
}

const count = (n, what) => n + ' ' + what + (n === 1 ? '' : 's');
const clock = (text) => new Date(text).toLocaleString();
const seconds = (from, to) => (new Date(to) - new Date(from)) / 1000;

function chosen() {
  return byId('namespace').value;
}

function showNamespaces(view) {
  const select = byId('namespace');
  const names = [...new Set([...view.namespaces, chosen()])].filter((n) => n !== '').sort();
  const have = [...select.options].slice(1).map((o) => o.value);
  if (names.join() === have.join()) return;
  const keep = chosen();
  select.replaceChildren(new Option('all', ''), ...names.map((n) => new Option(n, n)));
  select.value = keep;
}

function showHost(host) {
  const cells = el('div', 'cells');
  let used = 0;
  for (const slot of host.slots) {
    for (let i = 0; i < slot.gpus && used < host.gpus; i++, used++) {
      const cell = el('span', 'cell gpu used fill ' + colour(slot.gang));
      cell.title = (slot.pod || 'slot ' + slot.slot) + ', slot ' + slot.slot;
      cells.append(cell);
    }
  }
  for (let i = 0; used < host.gpus; i++, used++) cells.append(el('span', 'cell gpu' + (i < host.others.gpus ? ' others' : '')));
  const bar = el('div', 'bar');
  let cpus = 0;
  const part = (n, classes, title) => {
    const piece = el('i', classes);
    piece.style.width = (100 * n) / Math.max(1, host.cpus) + '%';
    piece.title = title;
    bar.append(piece);
    cpus += n;
  };
  for (const slot of host.slots) part(slot.cpus, 'fill ' + colour(slot.gang), (slot.pod || 'slot ' + slot.slot) + ': ' + slot.cpus + ' CPUs');
  if (host.others.cpus > 0) part(host.others.cpus, 'others', 'others: ' + host.others.cpus + ' CPUs');
  const card = el('div', 'host' + (host.usable ? '' : ' off'),
    el('h3', '', host.name, el('span', '', host.state)), cells, bar,
    el('p', '', `${count(host.slots.length, 'slot')}, ${cpus} of ${host.cpus} CPUs, ${host.gpus} GPUs, ${Math.round(host.memoryMiB / 1024)} GiB`));
  card.dataset.node = host.name;
  return card;
}

function showLine(gang, now) {
  const line = el('div', 'line');
  if (gang.timeline.length === 0) return line;
  const last = gang.timeline[gang.timeline.length - 1];
  const total = Math.max(1, seconds(gang.timeline[0].from, last.to || now));
  for (const span of gang.timeline) {
    const took = seconds(span.from, span.to || now);
    const piece = el('i', 'stage-' + span.stage);
    piece.style.width = (100 * Math.max(0, took)) / total + '%';
    piece.title = `${span.stage} for ${duration(took)}, from ${clock(span.from)}`;
    line.append(piece);
  }
  return line;
}

function times(gang, now) {
  return gang.timeline.map((s) => `${s.stage} ${duration(seconds(s.from, s.to || now))}`).join(' · ');
}

function jobText(gang) {
  if (!gang.job) return '';
  let text = 'job ' + gang.job.id;
  if (gang.job.state) text += ' ' + gang.job.state;
  if (gang.job.nodes) text += ' on ' + gang.job.nodes;
  if (gang.place) text += `, place ${gang.place} of ${gang.of} among those of this node`;
  if (gang.job.expectedStart) text += ', expected at ' + clock(gang.job.expectedStart);
  if (gang.job.limitEnd) text += ', limit at ' + clock(gang.job.limitEnd);
  return text;
}

function showSlots(gang) {
  const head = el('tr', '', ...['Slot', 'Pod', 'Phase', 'HPC node', 'CPUs', 'GPUs', 'Restarts', ''].map((t) => el('th', '', t)));
  const rows = gang.slots.map((s) => el('tr', '',
    el('td', '', s.slot < 0 ? '' : s.slot), el('td', '', s.pod || '–'), el('td', '', s.phase || ''), el('td', '', s.node || ''),
    el('td', '', s.slot < 0 ? '' : s.cpus), el('td', '', s.slot < 0 ? '' : s.gpus), el('td', '', s.restarts || ''), el('td', 'wide', s.message || '')));
  return el('div', 'scroll', el('table', '', el('thead', '', head), el('tbody', '', ...rows)));
}

// size is how many slots a gang has or, before they are known, pods.
function size(gang) {
  const slots = gang.slots.filter((s) => s.slot >= 0).length;
  return slots ? count(slots, 'slot') : count(gang.slots.length, 'pod');
}

function showGang(gang, now) {
  const details = el('details', 'gang mark ' + colour(gang.id),
    el('summary', '',
      el('span', 'badge', el('span', 'dot stage-' + gang.stage), gang.stage),
      el('span', 'owner', gang.owner, el('small', '', size(gang) + (gang.user ? ', ' + gang.user : '') + (gang.generation > 1 ? `, allocation ${gang.generation}` : ''))),
      el('span', 'reason', gang.reason || '', el('small', '', jobText(gang))),
      el('span', '', showLine(gang, now), el('span', 'times', times(gang, now)))));
  details.dataset.gang = gang.id;
  details.open = open.has(gang.id);
  if (details.open) details.append(showSlots(gang));
  details.addEventListener('toggle', () => {
    if (details.open === open.has(gang.id)) return;
    if (details.open) {
      open.add(gang.id);
      details.append(showSlots(gang));
    } else {
      open.delete(gang.id);
      details.lastElementChild.remove();
    }
  });
  return details;
}

function show(view) {
  latest = view;
  document.title = view.node + ' – Gangline';
  byId('node').textContent = view.node;
  byId('about').textContent = [view.cluster && 'cluster ' + view.cluster, view.manager, view.partition && 'partition ' + view.partition].filter(Boolean).join(', ');
  byId('trouble').hidden = !view.trouble;
  byId('trouble').textContent = view.trouble || '';
  showNamespaces(view);
  byId('nodes').replaceChildren(...view.nodes.map(showHost));
  const gangs = view.gangs.map((g) => showGang(g, view.at));
  byId('gangs').replaceChildren(...(gangs.length ? gangs : [el('p', 'empty', 'No gangs.')]));
  byId('omitted').hidden = !view.omitted;
  byId('omitted').textContent = view.omitted ? `${view.omitted} more are not shown.` : '';
  const counts = stages.map((s) => [s, view.gangs.filter((g) => g.stage === s).length]);
  byId('stages').replaceChildren(...counts.map(([s, n]) => el('span', 'badge', el('span', 'dot stage-' + s), `${s} ${n}`)));
  document.body.dataset.ready = 'true';
}

function say(text) {
  byId('state').textContent = text;
}

function query() {
  return chosen() ? '?namespace=' + encodeURIComponent(chosen()) : '';
}

async function ask() {
  try {
    const answer = await fetch('api/state' + query(), { cache: 'no-store' });
    if (!answer.ok) throw new Error(answer.status + ' ' + answer.statusText);
    show(await answer.json());
    say('asked at ' + new Date().toLocaleTimeString());
  } catch (e) {
    say('no answer: ' + e.message);
  }
}

// follow listens for changes, and asks now and then while it cannot.
function follow() {
  if (source) source.close();
  clearInterval(poll);
  poll = 0;
  source = new EventSource('api/events' + query());
  source.onmessage = (e) => {
    clearInterval(poll);
    poll = 0;
    show(JSON.parse(e.data));
    say('live');
  };
  source.onerror = () => {
    say('the connection was lost; trying again');
    if (!poll) poll = setInterval(ask, 5000);
    if (source.readyState === EventSource.CLOSED) setTimeout(follow, 15000);
  };
}

byId('namespace').addEventListener('change', follow);
// Times go on between two changes.
setInterval(() => {
  if (latest && !document.hidden) {
    latest.at = new Date().toISOString();
    show(latest);
  }
}, 10000);
follow();
