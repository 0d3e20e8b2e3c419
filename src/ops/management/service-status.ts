/** What `GET /status` answers, and all that the operator's page shows. */
export interface ServiceStatus {
  readonly version: string
  /** ISO 8601, as all times here. */
  readonly started_at: string
  readonly now: string
  readonly ready: boolean
  /** By name. */
  readonly checks: Readonly<Record<string, { readonly status: 'ok' | 'local' | 'unavailable' }>>
  readonly requests: {
    /** Since the start. */
    readonly total: number
    readonly in_flight: number
    readonly shed: number
    /** By class: `2xx` to `5xx`, and `aborted` if the client left before the response. */
    readonly by_status: Readonly<Record<string, number>>
    /** The most frequent first. */
    readonly by_route: readonly RouteStatus[]
    /** By the name of an API key. */
    readonly by_key: Readonly<Record<string, number>>
  }
  readonly connections: number
  /** What waits. */
  readonly queues: {
    readonly requests: number
    readonly writes: number
    readonly passwords: number
  }
  readonly storage: {
    readonly engine: 'sqlite' | 'postgres'
    readonly up: boolean
    readonly files?: { readonly database_bytes: number; readonly wal_bytes: number }
    readonly connections?: {
      readonly active: number
      readonly idle: number
      readonly waiting: number
    }
    /** Since the start. */
    readonly commits: {
      readonly count: number
      readonly writes: number
      readonly mean_ms: number | null
    }
  }
  readonly process: ProcessStatus
  readonly limits: {
    /** `none` without limits, and with CACHE_STORE=none. */
    readonly store: 'memory' | 'redis' | 'none'
    readonly up: boolean
    /** As `GET /limits` answers. */
    readonly rules: readonly RuleStatus[]
  }
  /** How many bans are in force. */
  readonly bans: number
  readonly history: History
}

/** Of requests that ended since the start. */
export interface RouteStatus {
  readonly method: string
  /** The template of a route; empty for paths without a route. */
  readonly route: string
  readonly count: number
  readonly mean_ms: number | null
  readonly p50_ms: number | null
  readonly p99_ms: number | null
  /** By status, and `aborted` if the client left before the response. */
  readonly by_status: Readonly<Record<string, number>>
}

export interface ProcessStatus {
  readonly pid: number
  readonly cpu_seconds: number
  readonly memory_bytes: number
  readonly event_loop_lag_ms: number
}

/** One rule of the limits, as `GET /limits` answers. */
export interface RuleStatus {
  readonly type: string
  readonly rule: string
  readonly dryRun: boolean
  readonly counted: number
  readonly passed: number
  readonly refused: number
  readonly would_refuse: number
}

/** The last 15 minutes. `GET /status?since=TIME` has only the samples after that time. */
export interface History {
  readonly every_seconds: number
  /** The oldest first, each with a later time than the one before it. */
  readonly samples: readonly HistorySample[]
}

/** What happened since the sample before. */
export interface HistorySample {
  readonly at: string
  /** The time since the sample before, by a clock that does not jump. Rates are the counts divided by it. */
  readonly seconds: number
  /** Requests that ended, by class of status. */
  readonly by_status: Readonly<Record<string, number>>
  /** Of the requests that ended; `null` without any. */
  readonly p50_ms: number | null
  readonly p90_ms: number | null
  readonly p99_ms: number | null
  /** Requests that were refused because the service was overloaded. */
  readonly shed: number
  /** Requests that rules refused, and would have refused but for a dry run. */
  readonly refused: number
  readonly would_refuse: number
  /** What waited at that moment. */
  readonly queues: ServiceStatus['queues']
  /** CPU seconds that the process used, for each second. */
  readonly cpu: number
}
