import type { NamedUser } from '../../users/words.ts'
import type { Database } from './sqlite-driver.ts'
import { createWordIndex, type WordIndex, type WordIndexProgress } from './word-index.ts'

/**
 * What the writes of one transaction change in the index of words. It is written once, right before the commit: FTS5 writes
 * a tree of its own to the disk at each savepoint, and needs users in the order of their ids to fill one tree.
 */
export interface WordChanges {
  /** Notes that a user was or is no longer there, or has other words. */
  note(id: number, change: WordChange): void
  /** Adds up to `limit` users to an index that is being built. `onAdded` gets the progress right before the commit. */
  addNext(limit: number, onAdded: (progress: WordIndexProgress) => void): void
  /** The place in what is noted now. */
  mark(): number
  /** Forgets what was noted after a place. */
  undoTo(mark: number): void
  /** Writes to the index what is noted. */
  apply(): void
}

export interface WordChange {
  /** Undefined for a new user. */
  readonly before?: NamedUser
  /** Undefined for a deleted user. */
  readonly after?: NamedUser
}

type Noted = { readonly id: number; readonly change: WordChange } | { readonly addNext: () => void }

export function createWordChanges(database: Database): WordChanges {
  let index: WordIndex | undefined
  let noted: Noted[] = []

  function openIndex(): WordIndex {
    index ??= createWordIndex(database)
    return index
  }

  function apply(): void {
    if (noted.length === 0) return
    const all = noted
    noted = []
    const words = openIndex()
    const through = words.through()
    for (const [id, { before, after }] of wholeChanges(all)) {
      // The others are added when their turn comes, as they are then.
      if (id > through || hasSameText(before, after)) continue
      if (before !== undefined) words.remove(id, before)
      if (after !== undefined) words.add(id, after)
    }
    for (const each of all) if ('addNext' in each) each.addNext()
  }

  return {
    note: (id, change) => noted.push({ id, change }),
    addNext: (limit, onAdded) => noted.push({ addNext: () => onAdded(openIndex().addNext(limit)) }),
    mark: () => noted.length,
    undoTo: mark => {
      noted.length = mark
    },
    apply,
  }
}

/** The first state and the last one of each user, in the order of the ids. */
function wholeChanges(noted: readonly Noted[]): (readonly [number, WordChange])[] {
  const changes = new Map<number, WordChange>()
  for (const each of noted) {
    if ('addNext' in each) continue
    const { before } = changes.get(each.id) ?? each.change
    const { after } = each.change
    changes.set(each.id, { ...(before && { before }), ...(after && { after }) })
  }
  return [...changes].sort(([id], [other]) => id - other)
}

function hasSameText(before: NamedUser | undefined, after: NamedUser | undefined): boolean {
  return before?.name === after?.name && before?.email === after?.email
}
