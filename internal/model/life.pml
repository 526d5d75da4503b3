/* The life of one key: requests that race, holders that crash or come late, a sweeper, a reconciler, a reaper, a completer, a
 * provider whose notices are delayed and delivered twice, and a wire that delivers a request's write late, and again.
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
#ifndef RESUME
#define RESUME 0      /* the record has a recovery point from its beginning: a run that was left is gone on with */
#endif
#ifndef ATOMIC
#define ATOMIC 0      /* the effect is in one transaction with the write that settles it: a run that was left did nothing */
#endif
#ifndef DOUBT
#define DOUBT 1       /* who goes on with a run makes no call that may have been made */
#endif
#ifndef LEARN
#define LEARN 1       /* what a call brought is stored with the recovery point after it, before anything else */
#endif
#ifndef ATTEMPT
#define ATTEMPT 1     /* a notice that nothing happened says of which attempt, and is heeded for no other */
#endif
#ifndef TOMBSTONE
#define TOMBSTONE 1   /* who takes back a write whose answer was lost leaves something that a copy of it cannot land on */
#endif
#ifndef NOTICES
#define NOTICES 0     /* a provider sends a notice */
#endif
#ifndef LATE
#define LATE 0        /* copies of one write of a request land when they like */
#endif
#ifndef RARE
#define RARE 0        /* moves that do in one what others do in two: the search of all is with fewer requests */
#endif
#ifndef COMPLETERS
#define COMPLETERS 0
#endif
#ifndef RECONCILERS
#define RECONCILERS 1
#endif
#ifndef REQUESTS
#define REQUESTS 3
#endif

mtype = { none, running, completed, retryable, unknown, expired };

mtype = { request, holder, sweeper, reconciler, reaper, completer, notice, undo };

mtype state = none;
byte version = 0;  /* of the record; each write draws another */
byte drawn = 0;    /* the last version that anybody drew */
byte stored = 0;   /* the answer in the record */
byte effects = 0;  /* in this life */
byte by = 0;       /* the version of the claim that had the effect */
byte answered = 0; /* the first answer that any client got in this life */
byte voided = 0;   /* claims up to this one are refused further down */
bool unsent = false; /* in the record: it is known that the call after its recovery point was not made */
byte learnt = 0;     /* in the record: its recovery point is after the call, which brought this */

byte fence = 0;    /* grows with every execution of the key, through all its lives */
byte sent = 0;     /* the version that the write on the wire would give the record, and the one it replaces; 0: it creates it */
byte over = 0;
bool undone = false; /* its sender has taken it back, and the record has not been removed since by rule */

#define RECONCILED 100 /* added to an answer that a reconciler made up: its bytes are not the handler's */

inline move(who, from, to) { assert(state == from); state = to; drawn++; version = drawn }

inline answer(r) {
  if
  :: answered == 0 -> answered = r
  :: else -> assert(answered == r || (ANSWER && answered % RECONCILED == r % RECONCILED)) /* I2; the outcome is one in any case */
  fi
}

byte life = 0;

inline granted() {
  if
  :: NOTICES -> fence++
  :: else
  fi
}

/* removed: what is sent now may land on nothing. */
inline removed() { newlife(); undone = false }

/* copied: a copy of the write that was just made stays on the wire, or not. */
inline copied(before) {
  if
  :: LATE && sent == 0 -> sent = version; over = before
  :: true
  fi
}

/* never_ran: what was taken back is nothing that anybody could be in doubt about. */
#define never_ran (LATE && undone && version == sent)

inline newlife() { life++; effects = 0; by = 0; answered = 0; stored = 0; unsent = false; learnt = 0 }

/* mine: the record is as this holder left it. */
#define mine(v) (!FENCING || version == v)

/* take: the next run of one that was left at its recovery point. It knows what is stored there, and no more. */
inline take(who) {
  move(who, running, running);
  claim = version; effect = learnt; doubt = !unsent && learnt == 0; unsent = false; granted()
}

/* committed is all that a holder does whose effect is in the transaction: both happen, where the record is still its own, or none. */
inline committed() {
  atomic {
    if
    :: FENCING && mine(claim) && state == running -> effects++; by = claim; effect = claim; assert(effects <= 1); /* I1 */
         move(holder, running, completed); stored = effect; answer(stored)
    :: !FENCING -> effects++; by = claim; assert(effects <= 1)
    :: else
    fi
  }
}

/* run is what a holder does, from its claim to the end. */
inline run_claim() {
  if
  :: ATOMIC ->
       if
       :: committed()
       :: true /* it crashes, or its transaction is rolled back */
       fi;
       goto end
  :: else
  fi;

  if
  :: goto end /* it crashes */
  :: atomic { mine(claim) && state == running && effect == 0 && !doubt -> move(holder, running, retryable); goto end } /* it proves that nothing happened */
  :: atomic { RESUME && mine(claim) && state == running && effect == 0 && !doubt -> /* it gives up, by proof, and says from where to go on */
       move(holder, running, running); unsent = true; goto end }
  :: atomic { doubt && DOUBT -> /* it cannot tell whether the call of a run before was made */
       if
       :: mine(claim) && state == running -> move(holder, running, unknown)
       :: else
       fi;
       goto end }
  :: atomic { RARE && !(doubt && DOUBT) && mine(claim) && state == running -> move(holder, running, unknown); claim = version; /* its time is over */
       if
       :: effect == 0 && !doubt && mine(claim) && state == unknown -> move(holder, unknown, retryable); goto end /* and then it proves that nothing happened */
       :: skip
       fi }
  :: !(doubt && DOUBT)
  fi;

  atomic { /* the effect, as late as it likes */
    if
    :: effect > 0 /* it was had before the recovery point */
    :: effect == 0 && claim <= voided -> goto end
    :: else -> effects++; by = claim; effect = claim; born = life
    fi;
    assert(effects <= 1) /* I1 */
  }

  if
  :: goto end /* it crashes */
  :: atomic { mine(claim) && state == running && PROOF -> move(holder, running, unknown); claim = version } /* it cannot tell, yet */
  :: atomic { mine(claim) && state == running && !PROOF -> move(holder, running, retryable); goto end }
  :: atomic { RESUME && mine(claim) && state == running -> /* the recovery point after the call, and what that brought */
       move(holder, running, running); claim = version;
       if
       :: LEARN -> learnt = effect
       :: else -> unsent = true
       fi }
  :: atomic { ANSWER || !STORE_FIRST -> /* the store stays away, or is asked later */
       if
       :: life == born -> answer(effect)
       :: else /* what a life that has ended answered is not this one's */
       fi }
  :: skip
  fi;

  if
  :: RESUME -> goto end /* it crashes, or gives up, at that point */
  :: skip
  fi;

  atomic { /* Settle */
    if
    :: mine(claim) && state == running -> move(holder, running, completed); assert(stored == 0); stored = effect; answer(stored) /* I3 */
    :: mine(claim) && state == unknown && FENCING -> move(holder, unknown, completed); assert(stored == 0); stored = effect; answer(stored) /* now it can */
    :: !mine(claim) && state == unknown && life == born -> move(holder, unknown, unknown) /* too late: it is evidence, and changes nothing */
    :: !mine(claim) && state == retryable && life == born -> move(holder, retryable, unknown) /* it contradicts what freed the key */
    :: !FENCING && state != running -> assert(stored == 0 || stored == claim); state = completed; stored = claim; answer(stored)
    :: else -> skip /* overtaken: the record says what its answer is */
    fi
  }
}

/* take_back ends a write without an answer: whether it has landed, or not yet. */
inline take_back() {
  if
  :: state == running && version == sent && (TOMBSTONE || over != 0) -> move(undo, running, retryable)
  :: !TOMBSTONE && state == running && version == sent && over == 0 -> move(undo, running, none)
  :: TOMBSTONE && state == none && over == 0 -> move(undo, none, retryable)
  :: TOMBSTONE && state == retryable && version == over -> move(undo, retryable, retryable)
  :: else /* somebody has gone on from there, or nothing has landed */
  fi;
  undone = true
}

proctype Request() {
  byte claim = 0, effect = 0, born = life, over_was = 0;
  bool doubt = false, lost = false;

  atomic { /* Begin: read, judge, write by compare-and-set */
    if
    :: state == none -> move(request, none, running); claim = version; granted(); copied(0)
    :: state == retryable -> over_was = version; move(request, retryable, running); unsent = false; claim = version; granted(); copied(over_was)
    :: LATE && sent == 0 && (state == none || state == retryable) -> /* it is sent, and there is no answer */
       drawn++; sent = drawn; lost = true;
       if
       :: state == none -> over = 0
       :: else -> over = version
       fi
    :: state == completed -> answer(stored); goto end
    :: state == completed -> move(request, completed, running); newlife(); claim = version; granted() /* its retention is over */
    :: state == retryable -> move(request, retryable, running); newlife(); claim = version; granted() /* likewise */
    :: state == expired -> move(request, expired, running); newlife(); claim = version; granted()
    :: state == expired -> goto end
    :: state == running -> goto end /* 409 */
    :: state == running -> /* its lease is over, seen by this request */
       if
       :: RESUME || ATOMIC -> take(request)
       :: !RESUME && !ATOMIC && LAPSE_UNKNOWN -> assert(!never_ran); move(request, running, unknown); goto end
       :: !RESUME && !ATOMIC && !LAPSE_UNKNOWN -> move(request, running, running); claim = version; granted()
       fi
    :: state == unknown -> goto end
    fi;
    born = life
  }
  if
  :: lost ->
     if
     :: atomic { take_back(); goto end }
     :: goto end /* it crashes */
     fi
  :: else
  fi;
  run_claim();
end: skip
}

proctype Wire() {
  byte i;
endidle:
  sent != 0;
  for (i : 1 .. 2) {
    atomic {
      if
      :: over == 0 && state == none -> state = running; version = sent; granted()
      :: over != 0 && state == retryable && version == over -> state = running; version = sent; unsent = false; granted()
      :: true /* it is lost, or lands where it changes nothing */
      fi
    }
  }
}

/* A provider says that the call of an attempt was not made, and makes it so; its notice comes late, and comes again. */
proctype Provider() {
  byte i, about;
endidle:
  atomic { state == unknown && effects == 0 -> about = fence; voided = drawn }
  for (i : 1 .. 2) {
    atomic {
      if
      :: state == unknown && (!ATTEMPT || fence == about) -> move(notice, unknown, retryable)
      :: true
      fi
    }
  }
}

proctype Completer() { /* no client comes again */
  byte claim = 0, effect = 0, born = 0;
  bool doubt = false;

endidle:
  atomic {
    RESUME && state == running -> take(completer); born = life
  }
  run_claim();
end: skip
}

proctype Sweeper() {
  byte i;
  for (i : 1 .. 2) {
    atomic {
      if
      :: state == running && LAPSE_UNKNOWN && !ATOMIC && (!RESUME || RARE) -> assert(!never_ran); move(sweeper, running, unknown) /* with RESUME: after the retention */
      :: state == running && ATOMIC -> move(sweeper, running, retryable) /* no write of an older version is committed after this one */
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
    :: atomic { state == unknown || RARE && state == running -> /* of a run, the lease is over */
         seen = version; found = effects > 0;
         if
         :: SETTLE && !found -> voided = drawn
         :: else
         fi }
       atomic {
         if
         :: state == running && version == seen && found -> move(reconciler, running, completed); assert(stored == 0); stored = by + RECONCILED
         :: state == running && version == seen && !found -> move(reconciler, running, retryable)
         :: RESUME && state == running && version == seen && found -> move(reconciler, running, running); learnt = by
         :: RESUME && state == running && version == seen && !found -> move(reconciler, running, running); unsent = true
         :: state == unknown && version == seen && found -> move(reconciler, unknown, completed); assert(stored == 0); stored = by + RECONCILED
         :: state == unknown && version == seen && !found -> move(reconciler, unknown, retryable)
         :: RESUME && state == unknown && version == seen && found -> move(reconciler, unknown, running); learnt = by /* for one phase */
         :: RESUME && state == unknown && version == seen && !found -> move(reconciler, unknown, running); unsent = true
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
      :: state == completed -> move(reaper, completed, none); removed()
      :: state == completed -> move(reaper, completed, expired)
      :: state == retryable -> move(reaper, retryable, none); removed()
      :: state == expired -> move(reaper, expired, none); removed()
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
#if COMPLETERS
    run Completer();
#endif
#if NOTICES
    run Provider();
#endif
#if LATE
    run Wire();
#endif
#if RECONCILERS
    run Reconciler();
#endif
    run Sweeper(); run Reaper()
  }
}
