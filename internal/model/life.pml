/* The life of one key: requests that race, holders that crash or come late, a sweeper, a reconciler, a reaper.
 *
 * Every transition of the record is written move(who, from, to), and a test compares them with the engine's rulebook. What is
 * promised is asserted: at most one effect in a life (I1), one answer in a life (I2), and a stored answer that stays (I3).
 *
 * Rules are switches, so that a test can drop one and see the promise break. Nobody's clock is trusted: a lease may be over at any
 * moment, and a holder may be late by any time. A version is a number that was never there before, as the writer draws it. */
#ifndef FENCING
#define FENCING 1     /* a write has to name the version it replaces */
#endif
#ifndef LAPSE_UNKNOWN
#define LAPSE_UNKNOWN 1 /* a lapsed lease proves nothing */
#endif
#ifndef PROOF
#define PROOF 1       /* a key is freed only where nothing happened for certain */
#endif
#ifndef KEEP_LIVE
#define KEEP_LIVE 1   /* retention ends no running and no unknown record */
#endif
#ifndef SETTLE
#define SETTLE 1      /* no trace is proof only once the attempt cannot happen any more */
#endif
#ifndef STORE_FIRST
#define STORE_FIRST 1 /* an answer leaves after it was stored */
#endif
#ifndef ANSWER
#define ANSWER 0      /* on_complete_failure: answer. The store may stay away: the true answer leaves, and a reconciled one may differ in bytes */
#endif
#ifndef REQUESTS
#define REQUESTS 3
#endif

mtype = { none, running, completed, retryable, unknown, expired };

mtype = { request, holder, sweeper, reconciler, reaper };

mtype state = none;
byte version = 0;  /* of the record; each write draws another */
byte drawn = 0;    /* the last version that anybody drew */
byte stored = 0;   /* the answer in the record */
byte effects = 0;  /* in this life */
byte by = 0;       /* the version of the claim that had the effect */
byte answered = 0; /* the first answer that any client got in this life */
byte voided = 0;   /* claims up to this one are refused further down */

#define RECONCILED 100 /* added to an answer that a reconciler made up: its bytes are not the handler's */

inline move(who, from, to) { assert(state == from); state = to; drawn++; version = drawn }

inline answer(r) {
  if
  :: answered == 0 -> answered = r
  :: else -> assert(answered == r || (ANSWER && answered % RECONCILED == r % RECONCILED)) /* I2; the outcome is one in any case */
  fi
}

byte life = 0;

inline newlife() { life++; effects = 0; by = 0; answered = 0; stored = 0 }

/* mine: the record is as this holder left it. */
#define mine(v) (!FENCING || version == v)

proctype Request() {
  byte claim = 0, effect = 0, born = 0;

  atomic { /* Begin: read, judge, write by compare-and-set */
    if
    :: state == none -> move(request, none, running); claim = version
    :: state == retryable -> move(request, retryable, running); claim = version
    :: state == completed -> answer(stored); goto end
    :: state == completed -> move(request, completed, running); newlife(); claim = version /* its retention is over */
    :: state == retryable -> move(request, retryable, running); newlife(); claim = version /* likewise */
    :: state == expired -> move(request, expired, running); newlife(); claim = version
    :: state == expired -> goto end
    :: state == running -> goto end /* 409 */
    :: state == running -> /* its lease is over, seen by this request */
       if
       :: LAPSE_UNKNOWN -> move(request, running, unknown); goto end
       :: !LAPSE_UNKNOWN -> move(request, running, running); claim = version
       fi
    :: state == unknown -> goto end
    fi
  }

  if
  :: goto end /* it crashes */
  :: atomic { mine(claim) && state == running -> move(holder, running, retryable); goto end } /* it proves that nothing happened */
  :: skip
  fi;

  atomic { /* the effect, as late as it likes */
    if
    :: claim <= voided -> goto end
    :: else -> effects++; by = claim; effect = claim; born = life
    fi;
    assert(effects <= 1) /* I1 */
  }

  if
  :: goto end /* it crashes */
  :: atomic { mine(claim) && state == running && PROOF -> move(holder, running, unknown); claim = version } /* it cannot tell, yet */
  :: atomic { mine(claim) && state == running && !PROOF -> move(holder, running, retryable); goto end }
  :: atomic { ANSWER || !STORE_FIRST -> /* the store stays away, or is asked later */
       if
       :: life == born -> answer(effect)
       :: else /* what a life that has ended answered is not this one's */
       fi }
  :: skip
  fi;

  atomic { /* Settle */
    if
    :: mine(claim) && state == running -> move(holder, running, completed); assert(stored == 0); stored = effect; answer(stored) /* I3 */
    :: mine(claim) && state == unknown && FENCING -> move(holder, unknown, completed); assert(stored == 0); stored = effect; answer(stored) /* now it can */
    :: !FENCING && state != running -> assert(stored == 0 || stored == claim); state = completed; stored = claim; answer(stored)
    :: else -> skip /* overtaken: the record says what its answer is */
    fi
  }
end: skip
}

proctype Sweeper() {
  byte i;
  for (i : 1 .. 2) {
    atomic {
      if
      :: state == running && LAPSE_UNKNOWN -> move(sweeper, running, unknown)
      :: state == running && !LAPSE_UNKNOWN -> move(sweeper, running, retryable)
      :: else
      fi
    }
  }
}

proctype Reconciler() {
  byte i, seen;
  bool found;
  for (i : 1 .. 2) {
    if
    :: atomic { state == unknown -> seen = version; found = effects > 0;
         if
         :: SETTLE && !found -> voided = drawn
         :: else
         fi }
       atomic {
         if
         :: state == unknown && version == seen && found -> move(reconciler, unknown, completed); assert(stored == 0); stored = by + RECONCILED
         :: state == unknown && version == seen && !found -> move(reconciler, unknown, retryable)
         :: else
         fi }
    :: true
    fi
  }
}

proctype Reaper() {
  byte i;
  for (i : 1 .. 2) {
    atomic {
      if
      :: state == completed -> move(reaper, completed, none); newlife()
      :: state == completed -> move(reaper, completed, expired)
      :: state == retryable -> move(reaper, retryable, none); newlife()
      :: state == expired -> move(reaper, expired, none); newlife()
      :: !KEEP_LIVE && (state == running || state == unknown) -> state = none
      :: true
      fi
    }
  }
}

init {
  byte i;
  atomic {
    for (i : 1 .. REQUESTS) { run Request() }
    run Sweeper(); run Reconciler(); run Reaper()
  }
}
