/* A model of src/kernels/machine/team.c for the model checker Spin: one caller and its helpers, several runs, the end.
 * check.sh searches every state with 2 helpers. scripts/defects/team_model.sh searches larger models.
 *
 * Each inline stands for the function of team.c with the same name. If you change one, change the other. A step of the
 * model is one access to a shared variable. Some accesses are one step together, because no other thread can see a
 * difference:
 *
 *     a load of word or sleepers, and the decisions that follow from the value
 *     the load and the compare-and-swap in wake_from: if the load fails, the compare-and-swap would fail
 *     accesses to job, shared and threads; open_run's load and store of word: assertions say that no thread interferes
 *
 * The model is sequentially consistent. So are the accesses to word, sleepers, state and ending in team.c, except two
 * relaxed loads of word. spin_until() decides nothing: wait_for loads the word again. open_run loads a word that no other
 * thread can change, because the last run is closed and empty. job, shared and threads are not atomic: word orders the
 * accesses to them. The other relaxed variables (opened, closed, computing, processors) hold estimates.
 *
 * The model leaves out spinning, times, and the number of processors: it chooses freely whether a helper backs off, and
 * for how long. It also leaves out claim_threads(), failures of thread creation, and what the lock protects.
 *
 * Spin checks that
 *
 *     a helper runs only the open run's job, at most once, and only if it may take part
 *     the caller returns from a run, and changes job, shared and threads, only while no helper is inside
 *     no thread sleeps forever: the caller returns from each run, all helpers end, and no one waits for a backoff
 *     no thread loops forever: the states have no cycle, so every execution ends
 *
 * With ABSENT, helper 1 may stop forever where it is not inside a run. Each run ends all the same, and the last helper
 * comes to a run whose caller waits for it. This model has no end_team(), because end_team() waits for all helpers. */

#ifndef HELPERS
#define HELPERS 2 /* at most 3 */
#endif
#ifndef RUNS
#define RUNS 2 /* before the end */
#endif
#ifndef WAKES
#define WAKES 2 /* that wake_two wakes; with 1, the second of two helpers is woken by the first */
#endif
#ifndef SPURIOUS
#define SPURIOUS 1 /* number of wake-ups without a cause: with any number of them, no wake-up would be missed */
#endif

#define GROWTH (RUNS > 1 -> 2 : RUNS) /* before this run, helpers 2 and more are created */
#define THREADS (HELPERS + 1)

/* The word, as in team.c with fewer bits. */
#define INSIDE 3
#define OPEN 4
#define RUN 8

/* The state of a slot. */
#define AWAKE 0
#define ASLEEP 1
#define BACKING_OFF 2

byte word, sleepers, state[THREADS];
bit in_futex[THREADS]; /* the thread sleeps in the system call */
bit ending;
byte job, shared, threads; /* a run's job and shared are its number; the end's job is 0 (NULL) */
byte size = 1;
bit joinable[THREADS];

byte spurious = SPURIOUS;

/* For the assertions. */
byte current;      /* the number of the run that the caller is in; 0: none */
byte readers;      /* helpers that may read job, shared and threads */
byte ran[THREADS]; /* the last run that this helper took part in */
bit all_woken;     /* end_team() has woken the slots */
bit finished;      /* the caller needs no helper any more (ABSENT) */

#ifdef MUTANT_RUN_MODULO_2
#define IS_NEW_RUN (seen / RUN % 2 != last / RUN % 2)
#else
#define IS_NEW_RUN (seen / RUN != last / RUN)
#endif
#define IS_RUN_EMPTY ((seen & INSIDE) == 0)

/* -- waiting -- */

/* FUTEX_WAIT: sleeps only if the state has this value, in one step with the comparison. Ends with a wake-up, with a
 * spurious one, or when the time is over. end_team() must not wait for that time. */
inline sleep_while(expected, limited)
{
#ifdef MUTANT_SLEEP_WITHOUT_COMPARISON
    in_futex[me] = 1;
#else
    in_futex[me] = (state[me] == expected);
#endif
    if
    :: !in_futex[me]
    :: atomic { in_futex[me] && spurious > 0 -> spurious--; in_futex[me] = 0 }
    :: atomic { in_futex[me] && limited && !all_woken -> in_futex[me] = 0 }
    :: finished -> goto over
    fi
}

inline wake_from(sleeper, from)
{
    d_step {
        woke = (state[sleeper] == from);
        if
        :: woke -> state[sleeper] = AWAKE
        :: else
        fi
    };
    if
    :: woke -> in_futex[sleeper] = 0 /* FUTEX_WAKE */
    :: else
    fi
}

/* A helper that the system never runs again. */
inline may_stop()
{
#ifdef ABSENT
    if
    :: true
    :: me == 1 -> finished; goto over
    fi
#else
    skip
#endif
}

/* -- sleep -- */

inline mark_asleep()
{
    state[me] = ASLEEP;
    if
    :: atomic { me > 0 -> sleepers = sleepers | (1 << me) }
    :: else
    fi
}

inline mark_awake()
{
    if
    :: atomic { me > 0 -> sleepers = sleepers & ~(1 << me) }
    :: else
    fi;
    state[me] = AWAKE
}

inline wait_for(holds)
{
    do
    :: atomic {
           seen = word;
           if
           :: holds -> break
           :: else -> seen = 0
           fi
       };
       may_stop();
       mark_asleep();
       may_stop();
#ifndef MUTANT_NO_RECHECK
       atomic {
           seen = word;
           asleep = (holds);
           seen = 0
       };
       if
       :: asleep -> asleep = 0
       :: else -> sleep_while(ASLEEP, false)
       fi;
#else
       sleep_while(ASLEEP, false);
#endif
       may_stop();
#ifndef MUTANT_NO_MARK_AWAKE
       if
       :: state[me] != AWAKE -> mark_awake()
       :: else
       fi
#endif
    od
}

/* -- helpers -- */

inline wake_two()
{
    do
    :: atomic {
           asleep = sleepers & ((1 << threads) - 1);
           if
           :: woken == WAKES || asleep == 0 -> asleep = 0; woken = 0; break
           :: else -> lowest = (asleep & 2 -> 1 : (asleep & 4 -> 2 : 3)); asleep = 0
           fi
       };
       atomic {
           asleep = (sleepers >> lowest) & 1;
           sleepers = sleepers & ~(1 << lowest)
       };
       if
       :: asleep ->
#ifdef MUTANT_WAKE_WITHOUT_STATE
          atomic { in_futex[lowest] = 0; woken++ }
#else
          wake_from(lowest, ASLEEP);
#ifdef MUTANT_COUNT_EVERY_BIT
          woken++
#else
          woken = woken + woke
#endif
#endif
       :: else
       fi;
       atomic { lowest = 0; asleep = 0; woke = 0 }
    od
}

/* (compare_exchange_weak may also fail without a cause. Then nothing changes, and the loop tries again.) */
inline enter_run()
{
    do
    :: !(last & OPEN) -> break
    :: else ->
        may_stop();
#ifdef MUTANT_ENTER_WITHOUT_CAS
        d_step { word++; readers++; entered = 1 };
#else
        d_step {
            if
            :: word == last -> word++; readers++; entered = 1
#ifdef MUTANT_FORGET_NEWER_RUN
            :: word != last && (word & OPEN) -> word++; readers++; entered = 1
#endif
            :: else -> last = word
            fi
        };
#endif
        if
        :: entered -> break
        :: else
        fi
    od
}

inline back_off()
{
    state[me] = BACKING_OFF;
    if
    :: !ending -> sleep_while(BACKING_OFF, true)
    :: else
    fi;
    state[me] = AWAKE
}

inline leave_run()
{
    atomic {
        was_last = !(word & OPEN) && (word & INSIDE) == 1;
        word--;
        readers--;
        entered = 0
    };
#ifndef MUTANT_LEAVE_WITHOUT_WAKE
    if
    :: was_last ->
        was_last = 0;
        wake_from(0, ASLEEP);
        if
        :: woke -> woke = 0; back_off() /* the caller was held up */
        :: woke = 0
        fi
    :: else
    fi
#endif
}

inline run_job()
{
    atomic {
        assert(current == job && shared == job && ran[me] != job);
        ran[me] = job
    }
}

proctype helper(byte me)
{
    byte last, seen, asleep, lowest, woken;
    bit woke, entered, was_last, needed = 1;
    do
    :: needed ->
        wait_for(IS_NEW_RUN);
        atomic { last = seen; seen = 0 };
        enter_run();
        if
        :: entered ->
            assert(current == last / RUN);
            if
            :: me < threads -> wake_two()
            :: else
            fi;
#ifdef MUTANT_LEAVE_BEFORE_JOB
            leave_run();
#endif
            if
            :: job == 0 -> needed = 0
            :: job != 0 && me < threads -> run_job()
            :: else
            fi;
#ifndef MUTANT_LEAVE_BEFORE_JOB
            leave_run()
#endif
        :: else
#ifdef MUTANT_FORGET_CLOSED_RUN
           -> last = 0
#endif
        fi;
        last = last / RUN * RUN
    :: else -> break
    od;
over:
    joinable[me] = 1
}

/* -- the caller -- */

inline add_helper()
{
    run helper(size);
    size++
}

inline grow()
{
    do
    :: size < THREADS -> add_helper()
    :: else -> break
    od
}

inline write_run(new_threads, new_job)
{
    atomic {
        assert(readers == 0);
        job = new_job;
        shared = new_job;
        threads = new_threads
    }
}

inline open_run(new_threads, new_job)
{
#ifndef MUTANT_OPEN_BEFORE_JOB
    write_run(new_threads, new_job);
#endif
    atomic {
        assert((word & (OPEN | INSIDE)) == 0);
        word = (word / RUN + 1) * RUN | OPEN;
        current = word / RUN
    };
#ifdef MUTANT_OPEN_BEFORE_JOB
    write_run(new_threads, new_job);
#endif
    wake_two()
}

inline close_run()
{
    atomic { seen = word; word = word & ~OPEN };
#ifndef MUTANT_CALLER_DOES_NOT_WAIT
    if
    :: IS_RUN_EMPTY
    :: else -> wait_for(IS_RUN_EMPTY)
    fi;
#endif
    atomic {
        assert(readers == 0);
        current = 0;
        job = 0;
        shared = 0;
        threads = 0;
        seen = 0;
        for (worker : 1 .. HELPERS) {
            ran[worker] = 0
        }
        worker = 0
    }
}

inline wake_slots()
{
    for (worker : 1 .. size - 1) {
        wake_from(worker, BACKING_OFF);
        woke = 0
    }
    all_woken = 1
}

inline end_team()
{
#ifndef MUTANT_LATE_ENDING
    ending = 1;
#endif
    open_run(size, 0);
    wake_slots();
#ifdef MUTANT_LATE_ENDING
    ending = 1;
#endif
    for (worker : 1 .. size - 1) {
        joinable[worker]
    }
    assert(readers == 0)
}

active proctype caller()
{
    byte me, seen, asleep, lowest, woken, worker, number;
    bit woke;
    add_helper();
    if
    :: GROWTH == 0 -> grow()
    :: else
    fi;
    number = 1;
    do
    :: number > RUNS -> break
    :: else ->
        if
        :: number == GROWTH -> grow()
        :: else
        fi;
        if
        :: open_run(2, number)
        :: size > 2 -> open_run(size, number)
#ifdef ABSENT
           if
           :: number == RUNS -> ran[HELPERS] == RUNS /* the caller's job waits for this helper */
           :: else
           fi
#endif
        fi;
        close_run();
        number++
    od;
#ifdef ABSENT
    finished = 1;
#else
    end_team();
#endif
over:
    skip
}
