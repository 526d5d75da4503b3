// The console's own script. The pages work without it: it reads them again while they are left
// alone, and keeps what people did over that.
(function () {
  'use strict';
  const $ = (s, in_) => (in_ || document).querySelector(s);
  const all = (s, in_) => Array.from((in_ || document).querySelectorAll(s));
  const say = (text) => { const p = $('#said'); if (p) p.textContent = text; };
  const kept = { // a browser may refuse to keep anything
    get: (name) => { try { return sessionStorage.getItem(name); } catch { return null; } },
    set: (name, v) => { try { sessionStorage.setItem(name, v); } catch { /* it is asked again */ } },
  };
  const main = () => $('#main');

  // A morph takes over the attributes of the new page, and would close folds, clear picks and empty
  // fields.
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => {
      if (name === 'open' && node.tagName === 'DETAILS') return false;
      if ((name === 'checked' || name === 'value') && /^(INPUT|TEXTAREA)$/.test(node.tagName) && node.type !== 'hidden') return false;
      if (name === 'hidden' && node.hasAttribute('data-new') || name === 'data-new') return false;
      if (name === 'hidden' && node.matches('[data-copy], [data-pick-all], #pause')) return false;
      return true;
    };
  }

  // ---- reading again
  let paused = kept.get('stet-paused') === '1', last = Date.now(), fault = '', asked = false;
  const busy = () => {
    const m = main(), on = document.activeElement, picked = getSelection();
    return document.hidden || paused || $('details.menu[open]') || $('.pick :checked', m)
      || on && m.contains(on) && on.matches('input:not([type=checkbox]):not([type=radio]), select, textarea') || picked && String(picked).trim() && m.contains(picked.anchorNode);
  };
  const tick = (now) => {
    const m = main();
    if (!m || !m.dataset.live || !window.htmx || !now && (busy() || Date.now() - last < m.dataset.live * 1000)) return;
    last = Date.now();
    asked = !!now; // by a person
    htmx.trigger(m, 'stet:tick');
  };
  setInterval(tick, 500);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) tick(); });
  const open = () => all('details[data-incident]').filter((d) => d.open).map((d) => d.dataset.incident).join(',');
  document.addEventListener('htmx:configRequest', (e) => {
    if (e.detail.elt !== main()) return;
    const at = new URL(location.href); // the filter may have changed since the page came
    if (all('details[data-incident]').length && at.pathname === '/unknown') at.searchParams.set('open', open() || 'none');
    e.detail.path = at.pathname + at.search;
  });
  // A fold that opens without its keys gets them with the page's next reading.
  document.addEventListener('toggle', (e) => {
    if (e.target.matches && e.target.matches('details[data-incident]') && e.target.open && !$('table', e.target)) tick(true);
  }, true);
  const state = () => {
    const live = $('#live-state'), pause = $('#pause'), m = main();
    if (!live || !pause || !m) return;
    pause.hidden = false;
    pause.setAttribute('aria-pressed', String(paused));
    live.classList.toggle('fine', !fault && !paused && !!m.dataset.live);
    live.textContent = fault || (paused || !m.dataset.live ? (paused ? 'Paused. ' : '') + 'The figures are of ' + new Date(last).toISOString().slice(11, 19) + ' UTC.' : 'Live, every ' + m.dataset.live + ' s');
  };
  const failed = () => {
    fault = fault || 'No answer since ' + new Date().toISOString().slice(11, 19) + ' UTC; asked again.';
    state();
  };
  document.addEventListener('htmx:sendError', failed);
  document.addEventListener('htmx:responseError', failed);
  document.addEventListener('htmx:afterRequest', (e) => { if (e.detail.successful) { fault = ''; state(); } });

  // Rows that come while somebody reads further down, or goes through the list, wait behind a button:
  // they would move what is read.
  let before = null;
  const seen = 'tbody tr:not([data-new]) .pick input'; // what waits is picked by no one
  document.addEventListener('htmx:beforeSwap', (e) => {
    const m = main();
    if (e.target === m && !asked && busy()) return void (e.detail.shouldSwap = false); // somebody began meanwhile
    const reads = scrollY > 0 || document.activeElement.closest('#main tr, #main li, #main summary');
    before = e.target === m && reads ? new Set(all('tbody tr[id]', m).map((r) => r.id)) : null;
  });
  const held = () => all('#main [data-new]');
  const hold = () => {
    if (before) all('#main tbody tr[id]').filter((r) => !before.has(r.id)).forEach((r) => { r.dataset.new = ''; r.hidden = true; });
    before = null;
    const b = $('#more'), n = held().length;
    if (b) { b.hidden = !n; b.textContent = n + ' more: show'; }
  };
  document.addEventListener('htmx:afterSettle', hold);

  // ---- what every page gets, and gets again after a swap
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
  const dress = () => {
    all('[data-copy], [data-pick-all]').forEach((b) => { b.hidden = false; });
    all('time[datetime]').forEach((t) => { t.title = zoned.format(new Date(t.dateTime)); }); // in the reader's zone
    state();
  };
  document.addEventListener('htmx:afterSettle', dress);
  dress();
  const note = $('#note');
  if (note) note.focus();
  else if ($('[aria-invalid]')) $('[aria-invalid]').focus();

  document.addEventListener('click', (e) => {
    const b = e.target.closest('button, a, [data-pick-all]');
    if (!b) return;
    if (b.getAttribute('aria-disabled') === 'true') return e.preventDefault();
    if (b.dataset.copy) copy($(b.dataset.copy).textContent, b);
    if (b.matches('[data-pick-all]')) all(seen, b.closest('table')).forEach((i) => { i.checked = b.checked; });
    if (b.id === 'pause') { paused = !paused; kept.set('stet-paused', paused ? '1' : '0'); state(); tick(); }
    if (b.id === 'more') { held().forEach((r) => { r.hidden = false; delete r.dataset.new; }); hold(); main().focus(); }
  });
  const copy = (text, b) => {
    navigator.clipboard.writeText(text).then(() => {
      say('copied');
      const was = b.textContent;
      b.textContent = 'copied';
      setTimeout(() => { b.textContent = was; }, 2000);
    }, () => say('not copied: the browser does not allow it'));
  };
  // A form is sent once. A button that waits for an answer says so.
  document.addEventListener('submit', (e) => {
    const f = e.target, b = e.submitter;
    if (f.method !== 'post' || f.matches('.find')) return;
    if (f.dataset.sent) return e.preventDefault();
    f.dataset.sent = '1';
    if (b && b.dataset.busy) { b.setAttribute('aria-busy', 'true'); b.textContent = b.dataset.busy; say(b.dataset.busy); }
  });
  window.addEventListener('pageshow', (e) => { if (e.persisted) all('form').forEach((f) => { delete f.dataset.sent; }); });

  // ---- keys: a slash goes to the field that finds, Escape closes what is open
  document.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') return all('details.menu[open]').forEach((d) => { d.open = false; $('summary', d).focus(); });
    if (e.key !== '/' || e.ctrlKey || e.altKey || e.metaKey || e.target.matches('input, select, textarea')) return;
    e.preventDefault();
    $('#q').focus();
  });
})();
