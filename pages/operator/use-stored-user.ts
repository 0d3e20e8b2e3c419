import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal } from './service.ts'
import type { UsersPart } from './users.tsx'
import { fetchUser, type StoredUser } from './users-service.ts'

/** What came of the last request. */
export interface Problem {
  /** `conflict`: somebody else has changed the user, and what is stored now is shown. */
  readonly kind: 'gone' | 'conflict' | 'wrong'
  /** Messages by field; those of no field under `''`. */
  readonly errors: Refusal['errors']
}

/** The open user as it is stored, kept up to date unless it is being edited, and what was wrong with the last request. */
export function useStoredUser({ item, actions, news }: UsersPart, isEdited: boolean) {
  const [stored, setStored] = useState<StoredUser>()
  const [problem, setProblem] = useState<Problem>()
  const isBusy = useRef(false)
  const keeps = useRef(isEdited)
  keeps.current = isEdited

  function fail(error: unknown): void {
    const text = actions.explain(error)
    const { status, errors = {} } = error instanceof Refusal ? error : {}
    const kind = status === 404 ? 'gone' : 'wrong'
    setProblem({ kind, errors: Object.keys(errors).length > 0 ? errors : { '': [text] } })
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
        const isGone = error instanceof Refusal && error.status === 404
        if (isGone || stored === undefined) fail(error)
      },
    )
  }, [news])

  /** Makes one change after another. */
  async function attempt(change: () => Promise<StoredUser>): Promise<void> {
    if (isBusy.current) return
    isBusy.current = true
    setProblem(undefined)
    try {
      setStored(await change())
    } catch (error) {
      const isConflict = error instanceof Refusal && error.status === 412
      if (!isConflict) fail(error)
      else
        await fetchUser(item).then(found => {
          setStored(found)
          setProblem({ kind: 'conflict', errors: {} })
        }, fail)
    }
    isBusy.current = false
  }

  return { stored, problem, attempt, forgetProblem: () => setProblem(undefined) }
}
