/** Settings of services under test, so that they refuse no request only because the machine is busy. */
export const UNHURRIED = { MAX_EVENT_LOOP_DELAY: '1 minute' }
