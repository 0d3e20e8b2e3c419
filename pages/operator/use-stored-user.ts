import { useEffect, useRef, useState } from 'preact/hooks'
import type { Actions } from './panel.tsx'
import { type Errors, refusalOf } from './service.ts'
import { fetchUser, type StoredUser } from './users-service.ts'

/** What a part of the view of users needs. */
export interface UsersPart {
  /** What is open: `''`, `new`, or an id. */
  readonly item: string
  readonly actions: Actions
  /** Changes when users may have changed; 0 before they may be asked for. */
  readonly news: number
  /** The time of the service in milliseconds since the epoch. */
  readonly now: number
}

/** What came of the last request. */
export interface Problem {
  /** `conflict`: somebody else has changed the user, and what is stored now is shown. */
  readonly kind: 'gone' | 'conflict' | 'wrong'
  /** Messages by field; those of no field under `''`. */
  readonly errors: Errors
}

/** The open user as it is stored, kept up to date unless it is being edited, and what was wrong with the last request. */
export function useStoredUser({ item, actions, news }: UsersPart, isEdited: boolean) {
  const [stored, setStored] = useState<StoredUser>()
  const [problem, setProblem] = useState<Problem>()
  const [isBusy, setIsBusy] = useState(false)
  const keeps = useRef(isEdited)
  keeps.current = isEdited

  function fail(error: unknown): void {
    const { status, errors } = actions.explain(error)
    setProblem({ kind: status === 404 ? 'gone' : 'wrong', errors })
  }

  useEffect(() => {
    if (item === 'new' || news === 0) return
    fetchUser(item).then(
      found => {
        setStored(known => {
          const isOlder = known !== undefined && known.updated_at > found.updated_at
          return isOlder || (known !== undefined && keeps.current) ? known : found
        })
        if (stored === undefined) setProblem(undefined)
      },
      error => {
        // What is shown stays while the service is away.
        if (refusalOf(error).status === 404 || stored === undefined) fail(error)
      },
    )
  }, [news, isEdited])

  /** Makes one change after another. */
  async function attempt(change: () => Promise<StoredUser>): Promise<void> {
    if (isBusy) return
    setIsBusy(true)
    setProblem(undefined)
    try {
      setStored(await change())
    } catch (error) {
      if (refusalOf(error).status !== 412) fail(error)
      else
        await fetchUser(item).then(found => {
          setStored(found)
          setProblem({ kind: 'conflict', errors: {} })
        }, fail)
    }
    setIsBusy(false)
  }

  return { stored, problem, isBusy, attempt, forgetProblem: () => setProblem(undefined) }
}
