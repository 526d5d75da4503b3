// What is wrong with a page for those who do not see it as it was meant, as far as axe does not say
// it: a list of sentences. It looks at the whole page as it is laid out now.
function laidOut() {
  scrollTo(0, 0);
  const faults = [];
  const all = (s, of) => Array.from((of || document).querySelectorAll(s));
  const say = (what, e) => faults.push(what + (e ? ': ' + e.outerHTML.replace(/\s+/g, ' ').slice(0, 110) : ''));
  const seen = (e) => e.checkVisibility({ contentVisibilityAuto: true, opacityProperty: true, visibilityProperty: true });
  const boxOf = (e) => e.getBoundingClientRect();

  // Rows have as many cells as their table, and links lead somewhere.
  for (const t of all('table')) {
    const columns = (tr) => all(':scope > th, :scope > td', tr).reduce((n, c) => n + c.colSpan, 0);
    const rows = all('tr', t).map(columns);
    if (new Set(rows).size > 1) say('a table whose rows have ' + [...new Set(rows)].join(' or ') + ' cells', t);
  }
  for (const a of all('a[href^="#"]')) if (a.hash.length > 1 && !document.getElementById(a.hash.slice(1))) say('a link to no place of the page', a);

  // The order of focus is that of the page: the next control is not above or left of the one before,
  // unless a column lies between them.
  const order = all('a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [tabindex]')
    .filter((e) => seen(e) && !e.closest('.vh, .skip') && !e.matches('.vh, .skip, main') && boxOf(e).width > 0 && e.tabIndex === 0);
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
    for (const e of all('body *').filter((e) => boxOf(e).right > across + 1 && !e.closest('.scroll, pre, .pills')).slice(0, 3)) say('sticks out', e);
  }
  return faults;
}

// audit is all that is wrong with a page: by the rules of WCAG 2.2 A and AA and good practice, as
// axe knows them, and by laidOut.
async function audit(only) {
  const found = await axe.run(document, Object.assign({ resultTypes: ['violations'], rules: { 'target-size': { enabled: true } } }, only && { runOnly: only }));
  return found.violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + v.help + ': ' + n.html.replace(/\s+/g, ' ').slice(0, 110))).concat(only ? [] : laidOut());
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
