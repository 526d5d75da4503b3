// What is wrong with a page for those who do not see it as it was meant: a list of sentences. It
// needs nothing but the page. audit() looks at the whole page as it is laid out now.
function audit() {
  scrollTo(0, 0);
  const faults = [];
  const all = (s, of) => Array.from((of || document).querySelectorAll(s));
  const say = (what, e) => faults.push(what + (e ? ': ' + e.outerHTML.replace(/\s+/g, ' ').slice(0, 110) : ''));
  const seen = (e) => e.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true });
  const boxOf = (e) => e.getBoundingClientRect();
  const hiddenFromReaders = (e) => !!e.closest('[aria-hidden=true]');

  // Every control has a name, from what readers are told: not from its placeholder.
  const controls = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [tabindex]:not([tabindex="-1"])';
  const textOf = (e) => {
    if (e.nodeType === 3) return e.data;
    if (e.nodeType !== 1 || e.getAttribute('aria-hidden') === 'true') return '';
    return e.getAttribute('aria-label') || Array.from(e.childNodes).map(textOf).join('');
  };
  const nameOf = (e) => {
    const by = (e.getAttribute('aria-labelledby') || '').split(/\s+/).filter(Boolean).map((id) => document.getElementById(id));
    if (by.length) return by.map((b) => b ? textOf(b) : '').join(' ').trim();
    if (e.getAttribute('aria-label')) return e.getAttribute('aria-label').trim();
    if (e.labels && e.labels.length) return Array.from(e.labels).map(textOf).join(' ').trim();
    return (textOf(e) || e.getAttribute('title') || e.getAttribute('alt') || '').trim();
  };
  for (const e of all(controls)) {
    if (hiddenFromReaders(e)) { if (seen(e)) say('a control that readers are not told of', e); continue; }
    if (!nameOf(e)) say('a control without a name', e);
    if (e.tabIndex > 0) say('a tabindex that is positive', e);
  }

  // The page's frame.
  const h1 = all('h1').filter(seen);
  if (h1.length !== 1) say('a page with ' + h1.length + ' h1');
  if (!document.documentElement.lang) say('no lang');
  if (!document.title.trim()) say('no title');
  const mains = all('main, [role=main]').filter(seen);
  if (mains.length !== 1) say('a page with ' + mains.length + ' main');
  for (const nav of all('nav')) if (!nav.getAttribute('aria-label') && !nav.getAttribute('aria-labelledby')) say('a nav without a name', nav);
  let level = 0;
  for (const h of all('h1, h2, h3, h4, h5, h6').filter(seen)) {
    const n = Number(h.tagName[1]);
    if (level && n > level + 1) say('a heading that leaves out a level', h);
    level = n;
  }
  const landmark = 'main, nav, header, footer, aside, [role=region], [role=search], [role=banner]';
  for (const t of texts()) if (!t.parentElement.closest(landmark + ', .skip, [aria-live], title')) say('text outside of every landmark', t.parentElement);

  // Tables have headers, lists have items, ids are of one element, references lead somewhere.
  for (const t of all('table')) {
    if (!all('th[scope]', t).length) say('a table without headers', t);
    for (const th of all('thead th', t)) if (!th.getAttribute('scope')) say('a header without scope', th);
    const columns = (tr) => all(':scope > th, :scope > td', tr).reduce((n, c) => n + c.colSpan, 0);
    const rows = all('tr', t).map(columns);
    if (new Set(rows).size > 1) say('a table whose rows have ' + [...new Set(rows)].join(' or ') + ' cells', t);
  }
  const ids = new Set();
  for (const e of all('[id]')) { if (ids.has(e.id)) say('an id twice', e); ids.add(e.id); }
  for (const name of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for', 'form']) {
    for (const e of all('[' + name + ']')) {
      for (const id of e.getAttribute(name).split(/\s+/)) if (id && !document.getElementById(id)) say(name + ' of no element', e);
    }
  }
  for (const e of all('svg, img')) {
    if (!hiddenFromReaders(e) && !e.closest('[role=img]') && !nameOf(e)) say('a picture without a name', e);
  }
  for (const a of all('a[href^="#"]')) if (a.hash.length > 1 && !document.getElementById(a.hash.slice(1))) say('a link to no place of the page', a);

  // Contrast, of colours as they were computed.
  function texts() {
    const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let t = walk.nextNode(); t; t = walk.nextNode()) {
      if (!t.data.trim() || !t.parentElement || /^(SCRIPT|STYLE|NOSCRIPT|OPTION)$/.test(t.parentElement.tagName) || !seen(t.parentElement)) continue;
      if (t.parentElement.closest('.vh')) continue;
      const r = document.createRange();
      r.selectNode(t);
      const b = r.getBoundingClientRect();
      if (b.width > 1 && b.height > 1 && b.bottom + scrollY > 0) found.push(t);
    }
    return found;
  }
  const parse = (c) => {
    const n = (c.match(/-?[\d.]+%?/g) || []).map((v) => v.endsWith('%') ? parseFloat(v) / 100 : parseFloat(v));
    if (c.startsWith('color(')) return { r: n[0] * 255, g: n[1] * 255, b: n[2] * 255, a: n[3] ?? 1 };
    if (!c.startsWith('rgb')) { say('a colour that cannot be read: ' + c); return { r: 0, g: 0, b: 0, a: 0 }; }
    return { r: n[0], g: n[1], b: n[2], a: n[3] ?? 1 };
  };
  const over = (top, under) => {
    const mix = (x, y) => x * top.a + y * (1 - top.a);
    return { r: mix(top.r, under.r), g: mix(top.g, under.g), b: mix(top.b, under.b), a: 1 };
  };
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const s = getComputedStyle(e), c = parse(s.backgroundColor);
      if (s.backgroundImage !== 'none') return null;
      if (c.a > 0) layers.push(c);
      if (c.a === 1) break;
    }
    const canvas = matchMedia('(prefers-color-scheme: dark)').matches ? { r: 18, g: 18, b: 18, a: 1 } : { r: 255, g: 255, b: 255, a: 1 };
    return layers.reduceRight((under, top) => over(top, under), canvas);
  };
  const light = (c) => {
    const f = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(c.r) + 0.7152 * f(c.g) + 0.0722 * f(c.b);
  };
  const contrast = (a, b) => { const x = light(a), y = light(b); return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
  const judge = (e, color, large) => {
    const under = behind(e);
    if (!under) return;
    let c = parse(color), o = 1;
    for (let p = e; p; p = p.parentElement) o *= Number(getComputedStyle(p).opacity);
    c.a *= o;
    const got = contrast(over(c, under), under);
    if (got < (large ? 3 : 4.5) - 0.005) say('contrast ' + got.toFixed(2) + ' of ' + color, e);
  };
  for (const t of texts()) {
    const e = t.parentElement, s = getComputedStyle(e), px = parseFloat(s.fontSize);
    const svg = e.closest('svg');
    judge(e, svg ? s.fill : s.color, px >= 24 || px >= 18.66 && Number(s.fontWeight) >= 700);
  }
  for (const e of all('input, select, textarea').filter(seen)) {
    if (!/^(hidden|checkbox|radio)$/.test(e.type)) judge(e, getComputedStyle(e).color, false);
    if (e.placeholder && !e.value) judge(e, getComputedStyle(e, '::placeholder').color, false);
  }

  // A finger finds its target: 24 px, or as much room around it, or a part of a sentence.
  const targets = all(controls).filter((e) => seen(e) && !e.closest('.vh, .skip') && !e.matches('.vh, .skip, main') && boxOf(e).width > 0);
  const room = targets.map((e) => e.labels && e.labels.length && e.matches('[type=checkbox], [type=radio]') && seen(e.labels[0]) ? boxOf(e.labels[0]) : boxOf(e));
  const inText = (e) => getComputedStyle(e).display === 'inline' && Array.from(e.parentElement.childNodes).some((n) => n !== e && n.textContent.trim());
  targets.forEach((e, i) => {
    const b = room[i];
    if (Math.min(b.width, b.height) >= 24 || inText(e)) return;
    const x = b.left + b.width / 2, y = b.top + b.height / 2;
    const near = room.some((o, j) => {
      if (i === j || e.contains(targets[j]) || targets[j].contains(e)) return false;
      const dx = Math.max(o.left - x, 0, x - o.right), dy = Math.max(o.top - y, 0, y - o.bottom);
      const small = Math.min(o.width, o.height) < 24;
      const cx = o.left + o.width / 2 - x, cy = o.top + o.height / 2 - y;
      return Math.hypot(dx, dy) < 12 || small && Math.hypot(cx, cy) < 24;
    });
    if (near) say('a target of ' + Math.round(b.width) + '×' + Math.round(b.height) + ' px, close to another', e);
  });

  // The order of focus is that of the page: the next control is not above or left of the one before,
  // unless a column lies between them.
  const order = targets.filter((e) => e.tabIndex === 0);
  for (let i = 1; i < order.length; i++) {
    const a = boxOf(order[i - 1]), b = boxOf(order[i]);
    if (order[i].closest('tr') && order[i].closest('tr') === order[i - 1].closest('tr')) continue; // a telephone shows a row as a list
    const sameLine = b.top < a.bottom - 1 && b.bottom > a.top + 1;
    if (sameLine && b.right <= a.left + 1 || b.bottom <= a.top + 1 && b.left < a.right - 1) say('the focus goes back', order[i]);
  }

  // Nothing is wider than the window.
  const across = document.documentElement.clientWidth, wide = document.documentElement.scrollWidth - across;
  if (wide > 0) {
    say(wide + ' px wider than ' + across);
    for (const e of all('main *, .bar *, .rail *').filter((e) => boxOf(e).right > across + 1 && !e.closest('.scroll, pre, .pills')).slice(0, 3)) say('sticks out', e);
    for (const t of texts().filter((t) => { const r = document.createRange(); r.selectNode(t); return r.getBoundingClientRect().right > across + 1; }).slice(0, 3)) if (!t.parentElement.closest('.scroll, pre, .pills')) say('text sticks out', t.parentElement);
  }
  return faults;
}

// tabbable is how many stops the tab key makes on the page.
function tabbable() {
  return Array.from(document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary'))
    .filter((e) => e.tabIndex === 0 && !e.disabled && e.checkVisibility({ visibilityProperty: true })).length;
}

// unseen says what is wrong with the element that has the focus: nothing shows that it has.
function unseen() {
  const e = document.activeElement, s = getComputedStyle(e);
  if (e === document.body) return '';
  const shown = s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1;
  const b = e.getBoundingClientRect();
  if (!shown) return 'the focus does not show: ' + e.outerHTML.slice(0, 110);
  if (b.bottom < 0 || b.top > innerHeight || b.right < 0 || b.left > innerWidth) return 'the focus is out of sight: ' + e.outerHTML.slice(0, 110);
  return '';
}

// freeze puts the same text in the place of whatever differs between two runs: instants, ages, ids,
// addresses, names of processes, and curves.
function freeze() {
  const same = [
    [/\b(k|i)_[0-9a-f]{16}\b/g, '$1_0123456789abcdef'], [/\bbulk_\w+/g, 'bulk_0123456789ABCDEFGHIJKLMNOP'], [/127\.0\.0\.1:\d+/g, '127.0.0.1:8081'],
    [/\b[0-9a-f]{32}\b/g, '4bf92f3577b34da6a3ce929d0e0e4736'], [/\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d)/g, '2026-03-08$1'],
    [/(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d+ [A-Z][a-z]+ \d{4}/g, 'Sunday, 8 March 2026'], [/\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?=\d\d:\d\d)/g, 'Sun '],
    [/\b\d\d:\d\d(:\d\d)?(\.\d+)?/g, (m, s) => '02:41' + (s ? ':07' : '')], [/\b[\d.]+ ?(ms|µs|s|min|m|h)\b( \d+ ?(s|min|m|h)\b)*/g, '12 s'],
    [/\b[a-z][\w.-]*:\d+:[\w-]+\b/gi, 'gw-1:1:a'], [/v0\.[\w.+-]+|\(devel\)|\bdevel\b/g, 'v0.1.0'], [/\/tmp\/\S+|\/dev\/shm\/\S+/g, '/var/lib/stet/stet.db'],
    [/\bversion \d+\b/g, 'version 3'], [/\b[a-z][\w.-]*:\d{2,}\b/gi, 'gw-1:1'],
  ];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t = walk.nextNode(); t; t = walk.nextNode()) for (const [from, to] of same) t.data = t.data.replace(from, to);
  for (const e of document.querySelectorAll('.spark path')) e.style.visibility = 'hidden';
  for (const e of document.querySelectorAll('.multi .val:not(.hd)')) e.textContent = '1.0';
  const main = document.querySelector('#main'); // which reads itself no more
  if (main) main.dataset.live = '';
  document.activeElement.blur();
  scrollTo(0, 0);
}
