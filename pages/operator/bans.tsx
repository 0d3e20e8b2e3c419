import { useEffect, useRef, useState } from 'preact/hooks'
import { formatCount, formatSpan } from './format.ts'
import { Panel, type PanelProps } from './panel.tsx'
import { addBan, type Ban, type Errors, fetchBans, liftBans } from './service.ts'
import { numbers, Table } from './table.tsx'

/** How often the list is asked for again while nothing seems to have changed, or while it is long. */
const REFRESH_MS = 10_000
const MAX_SHOWN = 100

/** The bans in force, all or those of some clients, to lift, and a form that finds or adds one. */
export function Bans({ view, actions }: PanelProps) {
  const [sought, setSought] = useState('')
  const { bans, failure, reload, remove } = useBans({ view, actions }, sought)
  const now = Date.parse(view.status.now)

  async function lift(rule: string, client?: string): Promise<void> {
    const which = client === undefined ? `all bans by ${rule}` : `the ban of ${client} by ${rule}`
    if (!window.confirm(`Lift ${which}?`)) return
    try {
      const lifted = await liftBans(rule, client)
      if (client === undefined)
        actions.notify(`Lifted all bans by ${rule}: ${formatCount(lifted)}.`)
      else actions.notify(lifted > 0 ? `Lifted ${which}.` : `When lifted, ${which} had ended.`)
      remove(rule, client)
      // The button of a ban will be gone.
      if (client !== undefined) document.getElementById('ban-client')?.focus()
    } catch (error) {
      actions.notify(actions.explain(error).message)
    }
    reload()
  }

  function showAdded(): void {
    setSought('')
    reload()
  }

  const action = (ban: Ban) => (
    <button
      type="button"
      aria-label={`Lift the ban of ${ban.client} by ${ban.rule}`}
      onClick={() => lift(ban.rule, ban.client)}
    >
      Lift
    </button>
  )
  const shown = bans?.slice(0, MAX_SHOWN)
  const inForce = `${formatCount(view.status.bans)} in force`
  const isPart = sought !== '' || bans?.length !== shown?.length
  const none = sought === '' ? 'No bans in force.' : `No ban of ${sought} in force.`
  const rules = new Map(
    view.status.limits.rules
      .filter(({ type }) => type === 'ban')
      .map(({ rule, dryRun }) => [rule, dryRun ? `${rule} (dry run)` : rule]),
  )
  // Bans outlive their rules.
  for (const { rule } of bans ?? [])
    if (!rules.has(rule)) rules.set(rule, `${rule} (no rule any more)`)
  return (
    <Panel
      name="bans"
      title="Bans"
      note={isPart ? `${inForce}, ${formatCount(shown?.length)} shown` : inForce}
    >
      <BanForm {...{ actions, rules }} onFind={setSought} onAdded={showAdded} onLiftAll={lift} />
      <Table
        id="bans"
        columns={[
          { label: 'Client', kind: 'name', cell: ban => ban.client },
          { label: 'Rule', kind: 'text', cell: ({ rule }) => rule },
          numbers<Ban>('Ends in', ({ ends_at }) => formatSpan(Date.parse(ends_at) - now)),
          { label: 'Lift', kind: 'number', cell: action },
        ]}
        rows={shown?.filter(({ ends_at }) => Date.parse(ends_at) > now)}
        keyOf={keyOf}
        empty={failure ?? none}
      />
    </Panel>
  )
}

const keyOf = ({ rule, client }: Ban) => JSON.stringify([rule, client])

/**
 * The first bans in force, as new as the status that is shown, or why there is no list, and functions that ask again and that take
 * lifted ones out.
 */
function useBans({ view, actions }: PanelProps, sought: string) {
  const [bans, setBans] = useState<readonly Ban[]>()
  const [failure, setFailure] = useState<string>()
  const [changes, setChanges] = useState(0)
  const period = Math.floor(Date.parse(view.status.now) / REFRESH_MS)

  useEffect(() => {
    let isNewest = true
    const show = (found: readonly Ban[], failed?: string) => {
      setBans(sortByClient(found))
      setFailure(failed)
    }
    fetchBans(sought).then(
      found => isNewest && show(found),
      error => isNewest && show([], actions.explain(error).message),
    )
    return () => {
      isNewest = false
    }
  }, [sought, Math.min(view.status.bans, MAX_SHOWN), period, changes])

  return {
    ...{ bans, failure },
    reload: () => setChanges(known => known + 1),
    /** Without a client all of the rule. */
    remove: (rule: string, client?: string) => {
      const isLifted = (ban: Ban) => ban.rule === rule && (client ?? ban.client) === ban.client
      setBans(known => known?.filter(ban => !isLifted(ban)))
    },
  }
}

const BY_NUMBERS = new Intl.Collator('en', { numeric: true })

/** Addresses are in the order of their numbers. */
function sortByClient(bans: readonly Ban[]): readonly Ban[] {
  const placed = bans.map(ban => ({ ban, place: placeOf(ban.client) }))
  placed.sort((one, other) => BY_NUMBERS.compare(one.place, other.place))
  return placed.map(({ ban }) => ban)
}

/** The client, an address of IPv6 with all its groups in decimal. */
function placeOf(client: string): string {
  const [address = ''] = client.split('/')
  if (!/^[\da-f]*:[\da-f:]*$/.test(address)) return client
  const parts = address.split('::').map(part => part.split(':').filter(group => group !== ''))
  const [head = [], tail = []] = parts
  const left = Array<string>(Math.max(0, 8 - head.length - tail.length)).fill('0')
  return [...head, ...left, ...tail].map(group => Number.parseInt(group, 16)).join(':')
}

interface BanFormProps extends Pick<PanelProps, 'actions'> {
  /** How each is shown, by its name. */
  readonly rules: ReadonlyMap<string, string>
  readonly onFind: (sought: string) => void
  readonly onAdded: () => void
  readonly onLiftAll: (rule: string) => void
}

const LABELS: Readonly<Record<string, string>> = { rule: 'Rule', client: 'Client', for: 'For' }

function BanForm({ rules, actions, onFind, onAdded, onLiftAll }: BanFormProps) {
  const [errors, setErrors] = useState<Errors>({})
  const form = useRef<HTMLFormElement>(null)
  const read = (field: string) =>
    String(new FormData(form.current ?? undefined).get(field) ?? '').trim()

  function showErrors(found: Errors): void {
    setErrors(found)
    const [wrong] = Object.keys(found)
    document.getElementById(`ban-${wrong}`)?.focus()
  }

  async function add(): Promise<void> {
    const time = read('for')
    const order = { rule: read('rule'), client: read('client'), ...(time && { for: time }) }
    try {
      const ban = await addBan(order)
      setErrors({})
      actions.notify(`${ban.client} is banned by ${ban.rule}.`)
      onAdded()
    } catch (error) {
      showErrors(actions.explain(error).errors)
    }
  }

  const describe = (field: string) => ({
    id: `ban-${field}`,
    name: field,
    'aria-describedby': 'ban-error',
    'aria-invalid': errors[field] !== undefined || undefined,
  })
  const text = { autocomplete: 'off', spellcheck: false }
  const messages = Object.entries(errors).map(([field, found]) =>
    `${LABELS[field] ?? field} ${found.join('; ')}`.trim(),
  )
  return (
    <form
      class="fields"
      ref={form}
      noValidate
      onSubmit={event => {
        event.preventDefault()
        setErrors({})
        onFind(read('client'))
      }}
    >
      <label>
        Client
        <input {...describe('client')} {...text} placeholder="or a part, as 203.0.113" />
      </label>
      <button type="submit">Find</button>
      <label>
        Rule
        <select {...describe('rule')}>
          {Array.from(rules, ([rule, shown]) => (
            <option key={rule} value={rule}>
              {shown}
            </option>
          ))}
        </select>
      </label>
      <label>
        For
        <input
          {...describe('for')}
          {...text}
          placeholder="as the rule says"
          onKeyDown={event => {
            if (event.key !== 'Enter') return
            // Enter alone presses the first button, which finds.
            event.preventDefault()
            document.getElementById('add-ban')?.click()
          }}
        />
      </label>
      <button type="button" id="add-ban" disabled={rules.size === 0} onClick={add}>
        Add the ban
      </button>
      <button type="button" disabled={rules.size === 0} onClick={() => onLiftAll(read('rule'))}>
        Lift all of the rule
      </button>
      <p class="bad" id="ban-error" role="alert">
        {messages.length > 0 && messages.join('. ')}
      </p>
    </form>
  )
}
