import { useEffect, useRef, useState } from 'preact/hooks'
import { Refusal } from './service.ts'
import type { UsersPart } from './users.tsx'
import { fetchUser, type StoredUser } from './users-service.ts'

/** What came of the last request for a user. */
export type Problem =
  | { readonly kind: 'gone' }
  /** Somebody else has changed the user, and what is stored now is shown. */
  | { readonly kind: 'conflict' }
  /** Messages by field; those of no field under `''`. */
  | { readonly kind: 'wrong'; readonly errors: Refusal['errors'] }

/** The open user as it is stored, kept up to date unless somebody is editing it, and its last problem. */
export function useStoredUser({ item, actions, news }: UsersPart, isEdited: boolean) {
  const [stored, setStored] = useState<StoredUser>()
  const [problem, setProblem] = useState<Problem>()
  const isBusy = useRef(false)
  const keepsDraft = useRef(isEdited)
  keepsDraft.current = isEdited

  function fail(error: unknown): void {
    const text = actions.explain(error)
    const { status, errors = {} } = error instanceof Refusal ? error : {}
    const isWrong = Object.keys(errors).length > 0
    setProblem(
      status === 404
        ? { kind: 'gone' }
        : { kind: 'wrong', errors: isWrong ? errors : { '': [text] } },
    )
  }

  async function load(): Promise<void> {
    try {
      const found = await fetchUser(item)
      setStored(known => {
        const isOlder = known !== undefined && known.user.updated_at > found.user.updated_at
        return known !== undefined && (isOlder || keepsDraft.current) ? known : found
      })
      if (stored === undefined) setProblem(undefined)
    } catch (error) {
      // What is shown stays while the service is away.
      if (stored === undefined || (error instanceof Refusal && error.status === 404)) fail(error)
    }
  }

  useEffect(() => {
    if (item !== 'new' && news > 0) void load()
  }, [news])

  /** Sends one change after another, and shows what is wrong with it. */
  async function attempt(change: () => Promise<StoredUser | undefined>): Promise<void> {
    if (isBusy.current) return
    isBusy.current = true
    setProblem(undefined)
    try {
      setStored(await change())
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 412)) fail(error)
      else
        await fetchUser(item).then(found => {
          setStored(found)
          setProblem({ kind: 'conflict' })
        }, fail)
    }
    isBusy.current = false
  }

  return { stored, problem, load, attempt, settle: () => setProblem(undefined) }
}
