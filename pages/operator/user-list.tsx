import { useEffect, useState } from 'preact/hooks'
import { formatCount, formatMoment, formatSpan } from './format.ts'
import { type Actions, Panel } from './panel.tsx'
import { Refusal } from './service.ts'
import { type Column, Table } from './table.tsx'
import { describeNone, searchParameters } from './user-search.ts'
import type { UsersPart } from './users.tsx'
import { fetchUsers, type User, type UserPage } from './users-service.ts'

/** The id of the field. */
export const SEARCH = 'user-search'

const PER_PAGE = 50

/** How long somebody who types pauses before the service is asked. */
const TYPING_MS = 300

/** The users that a search finds, a page at a time, the newest first unless another order is chosen. */
export function UserList({ item, actions, news, now }: UsersPart) {
  const [typed, setTyped] = useState('')
  const [search, setSearch] = useState('')
  const [sort, setSort] = useState('-created_at')
  /** The queries of the pages after the first one, up to that which is shown. */
  const [later, setLater] = useState<readonly string[]>([])
  const first = new URLSearchParams({
    ...{ per_page: `${PER_PAGE}`, sort },
    ...searchParameters(search),
  })
  const query = later.at(-1) ?? `${first}`
  const { answer, isNewest, retry } = useUsers(query, news, actions)

  function find(): void {
    setSearch(typed.trim())
    setLater([])
  }

  useEffect(() => {
    const timer = window.setTimeout(find, TYPING_MS)
    return () => window.clearTimeout(timer)
  }, [typed])

  function turnTo(pages: readonly string[]): void {
    setLater(pages)
    // The button may go.
    document.getElementById('users')?.focus()
    document.getElementById('users')?.scrollTo(0, 0)
  }

  const sortBy = (field: string, natural: string) => ({
    order: orderOf(sort, field),
    onToggle: () => {
      setSort(sort !== natural ? natural : natural.startsWith('-') ? field : `-${field}`)
      setLater([])
    },
  })
  const ago = (label: string, field: 'created_at' | 'updated_at'): Column<User> => ({
    ...{ label, kind: 'number', sorting: sortBy(field, `-${field}`) },
    cell: user => <Ago at={user[field]} now={now} />,
  })
  const columns: readonly Column<User>[] = [
    {
      ...{ label: 'Name', kind: 'name', sorting: sortBy('name', 'name') },
      cell: ({ id, name }) => (
        <a id={`open-${id}`} href={`#users/${id}`} aria-current={`${id}` === item || undefined}>
          {name}
        </a>
      ),
    },
    {
      ...{ label: 'E-mail', kind: 'text', sorting: sortBy('email', 'email') },
      cell: user => user.email,
    },
    {
      ...{ label: 'Id', kind: 'number', sorting: sortBy('id', '-id') },
      cell: user => `${user.id}`,
    },
    ago('Created', 'created_at'),
    ago('Updated', 'updated_at'),
  ]
  return (
    <Panel name="users" title="Users">
      <form
        class="fields"
        onSubmit={event => {
          event.preventDefault()
          find()
        }}
      >
        <input
          id={SEARCH}
          type="search"
          aria-label="Find users by words, address or id"
          placeholder="Name, address or id"
          autocomplete="off"
          spellcheck={false}
          value={typed}
          onInput={event => setTyped(event.currentTarget.value)}
        />
        <a id="open-new" class="button" href="#users/new">
          New user
        </a>
      </form>
      <p id="users-found" class={answer?.failure === undefined ? 'faint' : 'bad'} role="status">
        {describe(answer, search, later.length * PER_PAGE)}
      </p>
      {answer?.failure !== undefined && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
      <div aria-busy={!isNewest}>
        <Table
          {...{ id: 'users', caption: 'Users', columns, rows: answer?.users, empty: '' }}
          keyOf={({ id }) => `${id}`}
        />
      </div>
      <div class="fields">
        <button
          type="button"
          disabled={later.length === 0}
          onClick={() => turnTo(later.slice(0, -1))}
        >
          Previous page
        </button>
        <button
          type="button"
          disabled={answer?.next === undefined || !isNewest}
          onClick={() => turnTo([...later, answer?.next ?? ''])}
        >
          Next page
        </button>
      </div>
    </Panel>
  )
}

function orderOf(sort: string, field: string): 'ascending' | 'descending' | undefined {
  if (sort === field) return 'ascending'
  return sort === `-${field}` ? 'descending' : undefined
}

/** How long ago it was, and when. */
export function Ago({ at, now }: { readonly at: string; readonly now: number }) {
  const ms = Date.parse(at)
  return (
    <time dateTime={at} title={formatMoment(ms)}>
      {formatSpan(now - ms)} ago
    </time>
  )
}

interface Answer extends UserPage {
  readonly query: string
  /** Why there is no newer one. */
  readonly failure?: string
}

/** The newest answer to a query, and before it that to the query before. */
function useUsers(query: string, news: number, { explain }: Actions) {
  const [answer, setAnswer] = useState<Answer>()
  const [tries, setTries] = useState(0)

  useEffect(() => {
    if (news === 0) return
    const leaving = new AbortController()
    fetchUsers(query, leaving.signal).then(
      page => {
        if (!leaving.signal.aborted) setAnswer({ query, ...page })
      },
      error => {
        if (leaving.signal.aborted) return
        const details = error instanceof Refusal ? Object.values(error.errors).flat() : []
        const failure = [explain(error), ...details].join(': ')
        setAnswer(known =>
          known?.query === query
            ? { ...known, failure }
            : { query, users: [], next: undefined, failure },
        )
      },
    )
    return () => leaving.abort()
  }, [query, news, tries])

  return {
    answer,
    isNewest: answer?.query === query,
    retry: () => setTries(known => known + 1),
  }
}

function describe(answer: Answer | undefined, search: string, before: number): string {
  if (answer === undefined) return 'Loading…'
  const { users, next, failure } = answer
  if (failure !== undefined) return failure
  if (before > 0) return `Users ${formatCount(before + 1)} to ${formatCount(before + users.length)}`
  if (users.length === 0) return describeNone(search)
  if (next !== undefined) return `The first ${users.length} users`
  return users.length === 1 ? '1 user' : `${users.length} users`
}
