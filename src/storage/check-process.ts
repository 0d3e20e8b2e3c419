import { asRefusal, DatabaseRefused } from './database-refused.ts'
import { type Examination, examine } from './find-faults.ts'

/** What the process of a check prints, as JSON. */
export type CheckOutcome =
  | { readonly examination: Examination }
  | { readonly refused: { readonly message: string; readonly isFault: boolean } }

process.stdout.write(JSON.stringify(outcomeOf(process.argv[2] ?? '')))

function outcomeOf(path: string): CheckOutcome {
  try {
    return { examination: examine(path) }
  } catch (error) {
    const refusal = asRefusal(error)
    if (!(refusal instanceof DatabaseRefused)) throw error
    return { refused: { message: refusal.message, isFault: refusal.isFault } }
  }
}
