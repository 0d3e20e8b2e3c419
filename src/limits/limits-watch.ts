import { channel } from 'node:diagnostics_channel'
import { atOnce } from './at-once.ts'
import type { Count, CounterStore } from './counter-store.ts'
import { CHANNEL_NAME, type Notice, type NoticeType } from './notices.ts'
import type { CheckedLimits } from './rules-schema.ts'

/** Looks on while rules are asked, without a part in what they decide. */
export interface LimitsWatch {
  rules(limits: CheckedLimits): CheckedLimits
  store(store: CounterStore): CounterStore
}

/** What happened to a request, in the order in which it did. */
export type LimitsEvent =
  | { readonly happened: 'match'; readonly type: NoticeType; readonly rule: string }
  | {
      readonly happened: 'count'
      readonly type: NoticeType
      readonly rule: string
      readonly key: string
      readonly count: number
    }
  | ({ readonly happened: 'notice' } & Omit<Notice, 'request'>)

/** A watch that tells of each match and count, and of each notice of this process, until `end`. */
export function watchLimits(onEvent: (event: LimitsEvent) => void): LimitsWatch & { end(): void } {
  const notices = channel(CHANNEL_NAME)
  const onNotice = (notice: unknown) => {
    const { request: _request, ...told } = notice as Notice
    onEvent({ happened: 'notice', ...told })
  }
  notices.subscribe(onNotice)

  /** Tells of a match from within the rule: `match` is asked last, once all else is found to match. */
  function watched<Rule extends CheckedLimits['safelist'][number]>(type: NoticeType) {
    return (rule: Rule): Rule => ({
      ...rule,
      match: request => {
        const isMatch = rule.match === undefined || Boolean(atOnce(rule.match(request)))
        if (isMatch) onEvent({ happened: 'match', type, rule: rule.name })
        return isMatch
      },
    })
  }

  return {
    rules: limits => ({
      safelist: limits.safelist.map(watched('safelist')),
      blocklist: limits.blocklist.map(watched('blocklist')),
      bans: limits.bans.map(watched('ban')),
      throttle: limits.throttle.map(watched('throttle')),
      track: limits.track.map(watched('track')),
      rateLimits: limits.rateLimits,
    }),

    store: store => ({
      increment: (counterKey, windowMs) => {
        const [type, rule = '', ...parts] = counterKey.split('\n')
        const what = { type: type as NoticeType, rule, key: parts.join('\n') }
        const tell = (counted: Count) => {
          onEvent({ happened: 'count', ...what, count: counted.count })
          return counted
        }
        const counted = store.increment(counterKey, windowMs)
        return counted instanceof Promise ? counted.then(tell) : tell(counted)
      },
      reset: key => store.reset(key),
    }),

    end: () => notices.unsubscribe(onNotice),
  }
}
