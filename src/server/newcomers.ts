/** Makes room for clients that connect while the event loop is busy. */
export interface Newcomers {
  /** Call for every new connection; `now` by `performance.now()`. */
  add(now: number): void
  /** Call at the end of every turn of the event loop in which anything arrived. */
  endTurn(turnMs: number): void
  /** Call for a turn in which nothing arrived. */
  endEmptyTurn(): void
  /** Whether requests must wait because connections are being accepted. */
  isAccepting(now: number): boolean
  /** How long requests may be served without a look at new connections, in milliseconds. */
  sliceMs(): number
}

/** The slice while nobody connects. */
const SLICE_MS = 75

/** While clients connect, requests are served and connections accepted for this long in turn. */
const ACCEPTING_MS = 20

/** A turn of the event loop that takes longer makes connecting clients wait. */
const LONG_TURN_MS = 5

/** After this many turns without a new connection nobody is waiting to connect. */
const NEWCOMER_TURNS = 3

/** libuv may accept only one connection in each turn of the event loop, so that only short turns accept many. */
export function createNewcomers(): Newcomers {
  /** In how many turns, this one included, more connections are expected. */
  let turnsLeft = 0
  let lastTurnMs = 0
  let acceptingUntil = 0
  return {
    add: now => {
      turnsLeft = NEWCOMER_TURNS
      const isTheirTurn = now > acceptingUntil + ACCEPTING_MS
      if (isTheirTurn && lastTurnMs > LONG_TURN_MS) acceptingUntil = now + ACCEPTING_MS
    },
    endTurn: turnMs => {
      lastTurnMs = turnMs
      if (turnsLeft > 0) turnsLeft--
    },
    endEmptyTurn: () => {
      if (turnsLeft > 0) turnsLeft--
    },
    isAccepting: now => turnsLeft > 0 && now < acceptingUntil,
    sliceMs: () => (turnsLeft > 0 ? ACCEPTING_MS : SLICE_MS),
  }
}
