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
  readonly workers: readonly WorkerStatus[]
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

export interface RouteStatus {
  readonly method: string
  readonly route: string
  readonly status: number
  readonly count: number
  readonly mean_ms: number
  readonly p99_ms: number
}

export interface WorkerStatus {
  readonly worker: number
  readonly pid: number
  readonly started_at: string
  readonly requests: number
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

/** The last minutes. `GET /status?since=TIME` has only the samples after that time. */
export interface History {
  readonly every_seconds: number
  /** The oldest first. */
  readonly samples: readonly HistorySample[]
}

/** What happened since the sample before. */
export interface HistorySample {
  readonly at: string
  /** Requests that ended, by class of status. */
  readonly by_status: Readonly<Record<string, number>>
  /** Of the requests that ended; `null` without any. */
  readonly p50_ms: number | null
  readonly p90_ms: number | null
  readonly p99_ms: number | null
  /** Requests that rules refused, and would have refused but for a dry run. */
  readonly refused: number
  readonly would_refuse: number
  /** What waited at that moment. */
  readonly queues: ServiceStatus['queues']
  /** CPU seconds that all processes used, for each second. */
  readonly cpu: number
}
