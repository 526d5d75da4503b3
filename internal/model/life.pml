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
/* What a notice names the execution by that it is about. It is heeded where that matches, and nowhere else. */
#define BY_FENCE 1
#define BY_VERSION 2  /* of the record that a person decided on */
#define BY_INSTANT 3  /* the attempt, with an instant within it */
#define BY_KEY 4      /* the key that was sent further down: it names a life */
#define BY_ATTEMPT 5  /* the attempt alone, which begins at 1 in each life: the rule before, which frees another life (K01) */
#define BY_NOTHING 6
#ifndef NAMES
#define NAMES BY_FENCE
#endif
#ifndef KEY_FREES
#define KEY_FREES 0   /* the key that was sent further down is enough for the statement that nothing happened */
#endif
#ifndef ASSERTS
#define ASSERTS 1     /* a provider also says that the effect happened */
#endif
#ifndef ADOPT
#define ADOPT 1       /* evidence decides whether: a handler's answer that is held with the record is what retries receive */
#endif
#ifndef TELL
#define TELL 1        /* a handler that comes back after another execution has begun is proof of two effects */
#endif
#ifndef OVERRIDE
#define OVERRIDE 0    /* an operator frees a key once, and is wrong: two effects are theirs */
#endif
#ifndef TOMBSTONE
#define TOMBSTONE 1   /* who takes back a write whose answer was lost leaves something that a copy of it cannot land on */
#endif
#ifndef NOTICES
#define NOTICES 0     /* a provider sends notices: that the effect happened, or that it did not and will not */
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

mtype = { request, holder, sweeper, reconciler, reaper, completer, notice, operator, undo };

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

byte created = 0;  /* in the record: when this life began. The last version drawn is the clock: an execution takes an instant at least */
byte attempt = 0;  /* in the record: executions in this life */
byte fence = 0;    /* of the record's execution */
int acted = 0;     /* a bit for each fence of which the effect was had in this life */
byte held = 0;     /* in the record: an answer of its handler that came too late */
bool wrong = false; /* an operator has freed the key against the facts: a handler may have its effect at any time from then, in whatever life */
byte heard = 0;    /* with OVERRIDE: how many handlers that had their effect in this life have come back to say so */
bool loud = false;  /* it was told that an execution that was given up had its effect in this life */
byte sent = 0;     /* the version that the write on the wire would give the record, and the one it replaces; 0: it creates it */
byte over = 0;
bool undone = false; /* its sender has taken it back, and the record has not been removed since by rule */

#define RECONCILED 100 /* added to an answer that a reconciler made up: its bytes are not the handler's */

inline move(who, from, to) { assert(state == from); state = to; drawn++; version = drawn }

inline answer(r) {
  if
  :: answered == 0 -> answered = r
  :: else -> assert(answered == r || (ANSWER && held == 0 && answered % RECONCILED == r % RECONCILED)) /* I2; the outcome is one in any case */
  fi
}

byte life = 0;

#define FENCES (NOTICES || ANSWER)

/* granted: an execution begins. Its fence is higher than that of any before, in whatever life (I3). */
inline granted() {
  if
  :: FENCES && attempt == 0 -> created = drawn
  :: else
  fi;
  if
  :: FENCES -> attempt++; assert(created + attempt > fence); fence = created + attempt; own = fence
  :: else
  fi
}

/* had is the effect of the execution with this fence. */
#define has_acted(f) ((acted >> (f)) & 1)
inline had(v, f) { assert(f < 31); effects++; by = v; acted = acted | (1 << f); assert(effects <= 1 || wrong) /* I1 */ }

/* find is the answer that evidence of an effect leaves: what is held of the handler's own, else one that is made up (K02). */
inline find() {
  assert(stored == 0 && by != 0); /* I14: it is the effect of this life */
  if
  :: held != 0 && ADOPT -> stored = held
  :: else -> stored = by + RECONCILED
  fi;
  assert(held == 0 || stored == held)
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

inline newlife() {
  life++; effects = 0; by = 0; answered = 0; stored = 0; unsent = false; learnt = 0; attempt = 0; acted = 0; held = 0; heard = 0; loud = false
}

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
    :: FENCING && mine(claim) && state == running -> had(claim, own); effect = claim;
         move(holder, running, completed); stored = effect; answer(stored)
    :: !FENCING -> had(claim, own)
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
    :: else -> had(claim, own); effect = claim; born = life
    fi
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
       :: life == born -> answer(effect); told = true
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
    :: !mine(claim) && life == born && own == fence && told && state == unknown && held == 0 -> /* its client has the answer: that is the result */
         move(holder, unknown, completed); assert(stored == 0); stored = effect; answer(stored)
    :: !mine(claim) && life == born && own == fence && !told && state == unknown -> move(holder, unknown, unknown); held = effect /* evidence */
    :: !mine(claim) && life == born && own == fence && state == retryable -> move(holder, retryable, unknown); held = effect /* it contradicts what freed the key */
    :: OVERRIDE && TELL && !mine(claim) && life == born && (own != fence || state == none) ->
         loud = true /* another has begun since, or its record is gone: it is told, and changes nothing */
    :: !FENCING && state != running -> assert(stored == 0 || stored == claim); state = completed; stored = claim; answer(stored)
    :: else -> skip /* overtaken: the record says what its answer is */
    fi;
    if
    :: OVERRIDE && life == born -> heard++; assert(heard < 2 || loud) /* K03 */
    :: else
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
  byte claim = 0, effect = 0, born = life, over_was = 0, own = 0;
  bool doubt = false, lost = false, told = false;

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
  byte i, own;
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

#if NAMES == BY_FENCE
#define named (fence == the_fence)
#elif NAMES == BY_VERSION
#define named (version == the_version)
#elif NAMES == BY_INSTANT
#define named (attempt == the_attempt && created <= the_instant)
#elif NAMES == BY_KEY
#define named (life == the_life && (happened || KEY_FREES))
#elif NAMES == BY_ATTEMPT
#define named (attempt == the_attempt)
#else
#define named true
#endif

/* A provider knows what became of the execution that is in doubt. If it had no effect, the provider sees to it that it never will. Its
 * notice comes late, and comes again, in whatever life. */
proctype Provider() {
  byte i, the_fence, the_version, the_attempt, the_instant, the_life;
  bool happened;
endidle:
  atomic { state == unknown && (ASSERTS || !has_acted(fence)) ->
    the_fence = fence; the_version = version; the_attempt = attempt; the_instant = drawn; the_life = life; happened = has_acted(fence);
    if
    :: happened
    :: else -> voided = drawn
    fi
  }
  for (i : 1 .. 2) {
    atomic {
      if
      :: state == unknown && named && happened -> move(notice, unknown, completed);
           assert(has_acted(fence) || NAMES == BY_KEY); find() /* a true statement about an earlier execution ends nothing */
      :: state == unknown && named && !happened && held == 0 -> move(notice, unknown, retryable)
      :: OVERRIDE && happened && life == the_life && the_fence < fence -> loud = true
      :: true
      fi
    }
  }
}

/* An operator who is wrong once. The history has their name. */
proctype Operator() {
endidle:
  atomic { state == unknown && held == 0 -> wrong = true; move(operator, unknown, retryable) }
}

proctype Completer() { /* no client comes again */
  byte claim = 0, effect = 0, born = 0, own = 0;
  bool doubt = false, told = false;

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
         :: state == running && version == seen && found -> move(reconciler, running, completed); find()
         :: state == running && version == seen && !found -> move(reconciler, running, retryable)
         :: RESUME && state == running && version == seen && found -> move(reconciler, running, running); learnt = by
         :: RESUME && state == running && version == seen && !found -> move(reconciler, running, running); unsent = true
         :: state == unknown && version == seen && found -> move(reconciler, unknown, completed); find()
         :: state == unknown && version == seen && !found && held == 0 -> move(reconciler, unknown, retryable)
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
#if OVERRIDE
    run Operator();
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
