import { formatMoment } from './format.ts'
import type { View } from './state.ts'

/** How the page stands to the service. */
export type Connection =
  | { readonly kind: 'live' }
  /** `refusals` counts the answers that asked for a token. */
  | { readonly kind: 'locked'; readonly refusals: number }
  /** `since` is the time of the last answer, or of the first attempt, by the browser's clock. */
  | { readonly kind: 'lost'; readonly since: number; readonly reason: string }

export interface Readiness {
  readonly title: string
  readonly tone: 'good' | 'warn' | 'bad' | undefined
  /** For a screen reader; empty before the first answer. */
  readonly sentence: string
}

/** The state of the service in a word and in a sentence. */
export function readinessOf(connection: Connection, view: View | undefined): Readiness {
  if (connection.kind === 'locked') {
    return { title: 'Locked', tone: 'warn', sentence: 'The service asks for a token.' }
  }
  if (connection.kind === 'lost') {
    const { reason, since } = connection
    const moment = formatMoment(since, Date.now())
    const sentence = `${reason} since ${moment}. The page tries again by itself.`
    return { title: reason, tone: 'bad', sentence }
  }
  if (view === undefined) return { title: 'Connecting', tone: undefined, sentence: '' }
  const { ready, checks } = view.status
  if (ready) return { title: 'Ready', tone: 'good', sentence: 'The service is ready.' }
  const down = Object.keys(checks).filter(name => checks[name]?.status === 'unavailable')
  const names = down.length > 0 ? `: ${down.join(', ')}` : ''
  return { title: 'Not ready', tone: 'bad', sentence: `The service is not ready${names}.` }
}
