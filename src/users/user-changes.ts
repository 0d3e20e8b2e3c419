import { repeat } from '../platform/follow.ts'
import type { UserJson } from './user-repository.ts'

/** A position in the feed. Later changes have later positions. */
export interface ChangePosition {
  /** Identifies the feed. A database that was restored or copied has a new feed, whose positions start over. */
  readonly mark: string
  /** A number that grows with each transaction, as decimal digits. */
  readonly key: string
  /** The id of the user. Several users may have the same key. */
  readonly id: number
  /** The newest key when the reading began: users that were deleted before that were never shown to this reader. */
  readonly since: string
}

/** The latest change of a user: the user as it is now, or when it was deleted. */
export interface UserChange {
  readonly position: ChangePosition
  readonly id: number
  readonly user: UserJson | undefined
  /** ISO 8601 in UTC with milliseconds. */
  readonly deletedAt: string | undefined
}

/** A change as `GET /users/changes` shows it. */
export function changeJson({ id, user, deletedAt }: UserChange): string {
  return user === undefined
    ? `{"id":${id},"user":null,"deleted_at":"${deletedAt}"}`
    : `{"id":${id},"user":${user}}`
}

/** When it was made, ISO 8601 in UTC. */
export function timeOf({ user, deletedAt }: UserChange): string {
  return user === undefined ? String(deletedAt) : JSON.parse(user).updated_at
}

export interface ChangePage {
  readonly changes: readonly UserChange[]
  /** Where the next page starts. */
  readonly next: ChangePosition
  /** Whether there is more now. A page may have less than `limit` and still have more after it. */
  readonly hasMore: boolean
}

/** The latest change of each user, deletions among them, in the order of the changes. */
export interface UserChanges {
  /**
   * Up to `limit` changes after a position, or from the beginning. A client that applies all of them until `hasMore` is
   * false has exactly the users of that moment: a change that is not visible yet comes after all visible ones. After `now`
   * come only changes that are not visible yet.
   * Throws `cursor_expired` for a position of another feed, one from before a deletion that is no longer kept, and one that
   * lies in the future.
   */
  read(after: ChangePosition | 'now' | undefined, limit: number): Promise<ChangePage>
  /** The position of the last change that `read` would show. For polling: it reads one row. */
  last(): Promise<ChangePosition>
  /**
   * Forgets some of the deletions before a time. Returns whether there may be more of them. A deletion that is dated
   * after `now` is forgotten together with the next deletion of an earlier date. If there is no such deletion, its date becomes
   * `now`. Both times are milliseconds since the epoch.
   */
  forgetDeletions(times: { readonly before: number; readonly now: number }): Promise<boolean>
  /** How many deletions are kept. */
  countDeletions(): Promise<number>
}

/** Whether `one` is after `other`, in the same feed. */
export function isAfter(
  one: Pick<ChangePosition, 'key' | 'id'>,
  other: Pick<ChangePosition, 'key' | 'id'>,
): boolean {
  return one.key === other.key ? one.id > other.id : BigInt(one.key) > BigInt(other.key)
}

const EVERY_MS = 60_000

/** Forgets deletions once they are older than `retentionMs`, in small steps beside other work. */
export function startForgetting(options: {
  readonly changes: Pick<UserChanges, 'forgetDeletions' | 'countDeletions'>
  readonly retentionMs: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Whether the database is left alone for now. */
  readonly isIdle: () => boolean
  /** Called for the first of several failures in a row. */
  readonly onFailure: (error: unknown) => void
}) {
  const { changes, retentionMs, now, isIdle, onFailure } = options
  let kept = 0
  let hasEnded = false

  async function work(): Promise<void> {
    if (isIdle()) return
    const nowMs = now()
    const times = { before: nowMs - retentionMs, now: nowMs }
    while (!hasEnded && (await changes.forgetDeletions(times)));
    if (!hasEnded) kept = await changes.countDeletions()
  }

  const { run, close } = repeat({
    work,
    everyMs: EVERY_MS,
    onFailure: error => {
      if (!hasEnded) onFailure(error)
    },
  })
  void run()

  return {
    /** Deletions that were kept when they were last counted. */
    kept: () => kept,
    /** Waits for nothing: the database finishes the writes that run, and the count may be slow. */
    close: () => {
      hasEnded = true
      void close()
    },
  }
}
