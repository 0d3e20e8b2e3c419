import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { formatMoment, formatSpan } from './format.ts'
import { type Actions, Panel } from './panel.tsx'
import { type Column, Table } from './table.tsx'
import type { UsersPart } from './use-stored-user.ts'
import { describeNone, searchParameters } from './user-search.ts'
import { deleteUsers, fetchCsv, fetchUsers, type User, type UserPage } from './users-service.ts'

const PER_PAGE = 50

/** How long somebody who types pauses before the service is asked. */
const TYPING_MS = 300

/** The users that a search finds, a page at a time, the newest first unless another order is chosen. */
export function UserList({ item, actions, news, now }: UsersPart) {
  const [search, setSearch] = useState('')
  const [sort, setSort] = useState('-created_at')
  /** The queries of the pages after the first one, up to that which is shown. */
  const [later, setLater] = useState<readonly string[]>([])
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set())
  /** Why users could not be deleted or saved. */
  const [trouble, setTrouble] = useState<string>()
  const field = useRef<HTMLInputElement>(null)
  const typing = useRef(0)
  const first = { per_page: `${PER_PAGE}`, sort, ...searchParameters(search) }
  const query = later.at(-1) ?? `${new URLSearchParams(first)}`
  const answer = useUsers(query, news, actions)
  const isNewest = answer?.query === query

  function find(afterMs: number): void {
    window.clearTimeout(typing.current)
    typing.current = window.setTimeout(() => {
      setSearch(field.current?.value.trim() ?? '')
      setLater([])
    }, afterMs)
  }

  function turnTo(pages: readonly string[]): void {
    setLater(pages)
    // The button may be disabled now.
    document.getElementById('users')?.focus()
    document.getElementById('users')?.scrollTo(0, 0)
  }

  const sorted = (by: keyof User, label: string, cell: Column<User>['cell']): Column<User> => {
    const isText = by === 'name' || by === 'email'
    const [natural, reverse] = isText ? [by, `-${by}`] : [`-${by}`, by]
    return {
      ...{ label, cell, kind: by === 'name' ? by : isText ? 'text' : 'number' },
      order: sort === by ? 'ascending' : sort === `-${by}` ? 'descending' : undefined,
      onSort: () => {
        setSort(sort === natural ? reverse : natural)
        setLater([])
      },
    }
  }
  const ago = (at: string): ComponentChildren => (
    <time dateTime={at} title={formatMoment(at)}>
      {formatSpan(now - Date.parse(at))} ago
    </time>
  )
  const link = ({ id, name }: User) => (
    <a id={`open-${id}`} href={`#users/${id}`} aria-current={`${id}` === item || undefined}>
      {name}
    </a>
  )
  const choice = ({ id, name }: User) => (
    <input
      type="checkbox"
      aria-label={`Choose ${name}`}
      checked={chosen.has(id)}
      onChange={({ currentTarget: { checked } }) =>
        setChosen(new Set(checked ? [...chosen, id] : [...chosen].filter(other => other !== id)))
      }
    />
  )
  const columns = [
    sorted('name', 'Name', user => [choice(user), ' ', link(user)]),
    sorted('email', 'E-mail', ({ email }) => email),
    sorted('id', 'Id', ({ id }) => id),
    sorted('created_at', 'Created', user => ago(user.created_at)),
    sorted('updated_at', 'Updated', user => ago(user.updated_at)),
  ]
  const { users, next, failure } = answer ?? {}
  const ids = (users ?? []).flatMap(({ id }) => (chosen.has(id) ? [id] : []))
  const several = ids.length === 1 ? '1 user' : `${ids.length} users`

  async function attempt(work: () => Promise<void>): Promise<void> {
    setTrouble(undefined)
    await work().catch(error => setTrouble(actions.explain(error).message))
  }

  async function deleteChosen(): Promise<void> {
    if (!window.confirm(`Delete ${several}? This cannot be undone.`)) return
    await deleteUsers(ids)
    setChosen(new Set())
  }

  async function saveCsv(): Promise<void> {
    const href = URL.createObjectURL(await fetchCsv(searchParameters(search)))
    Object.assign(document.createElement('a'), { href, download: 'users.csv' }).click()
    window.setTimeout(() => URL.revokeObjectURL(href), 60_000)
  }

  const turns = [
    { text: 'Previous page', isOff: later.length === 0, to: () => later.slice(0, -1) },
    { text: 'Next page', isOff: !isNewest || !next, to: () => [...later, next ?? ''] },
  ]
  return (
    <Panel name="users" title="Users">
      <form
        class="fields"
        onSubmit={event => {
          event.preventDefault()
          find(0)
        }}
      >
        <input
          ref={field}
          id="user-search"
          type="search"
          aria-label="Find users by words, address or id"
          placeholder="Name, address or id"
          autocomplete="off"
          spellcheck={false}
          onInput={() => find(TYPING_MS)}
        />
        <a id="open-new" href="#users/new">
          New user
        </a>
      </form>
      <p id="users-found" class={failure === undefined ? 'faint' : 'bad'} role="status">
        {answer === undefined ? 'Loading…' : describe(answer, search, later.length * PER_PAGE)}
      </p>
      <div aria-busy={!isNewest}>
        <Table id="users" {...{ columns, rows: users }} keyOf={({ id }) => `${id}`} empty="" />
      </div>
      <div class="fields">
        {turns.map(({ text, isOff, to }) => (
          <button key={text} type="button" disabled={isOff} onClick={() => turnTo(to())}>
            {text}
          </button>
        ))}
        <button type="button" disabled={ids.length === 0} onClick={() => attempt(deleteChosen)}>
          {ids.length === 0 ? 'Delete chosen' : `Delete ${several}`}
        </button>
        <button type="button" onClick={() => attempt(saveCsv)}>
          Save as CSV
        </button>
      </div>
      {trouble !== undefined && (
        <p class="bad" role="alert">
          {trouble}
        </p>
      )}
    </Panel>
  )
}

interface Answer extends UserPage {
  readonly query: string
  /** Why there is no newer one. */
  readonly failure?: string
}

/** The newest answer to a query, and before it that to the previous query. */
function useUsers(query: string, news: number, { explain }: Actions): Answer | undefined {
  const [answer, setAnswer] = useState<Answer>()
  useEffect(() => {
    if (news === 0) return
    const leaving = new AbortController()
    fetchUsers(query, leaving.signal).then(
      page => leaving.signal.aborted || setAnswer({ query, ...page }),
      error => {
        if (leaving.signal.aborted) return
        const { message, details } = explain(error)
        const none: Answer = { query, users: [], next: undefined }
        const failure = [message, ...details].join(': ')
        setAnswer(known => ({ ...(known?.query === query ? known : none), failure }))
      },
    )
    return () => leaving.abort()
  }, [query, news])
  return answer
}

function describe({ users, next, failure }: Answer, search: string, before: number): string {
  if (failure !== undefined) return failure
  if (users.length === 0) return before > 0 ? 'No more users' : describeNone(search)
  if (before > 0) return `Users ${before + 1} to ${before + users.length}`
  if (next !== undefined) return `The first ${users.length} users`
  return users.length === 1 ? '1 user' : `${users.length} users`
}
