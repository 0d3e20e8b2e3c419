import { useEffect, useRef, useState } from 'preact/hooks'
import { formatCount, formatSpan } from './format.ts'
import { Panel, type PanelProps } from './panel.tsx'
import { addBan, type Ban, fetchBans, liftBan, MAX_BANS, Refusal } from './service.ts'
import { numbers, Table } from './table.tsx'

/** How often the list is asked for again while nothing seems to have changed. */
const REFRESH_MS = 10_000

/** The bans in force, all or those of one client, to lift, and a form that finds or adds one. */
export function Bans({ view, actions }: PanelProps) {
  const [client, setClient] = useState('')
  const { bans, failure, reload, remove } = useBans({ view, actions }, client)
  const now = view === undefined ? 0 : Date.parse(view.status.now)

  async function lift(ban: Ban): Promise<void> {
    const which = `the ban of ${ban.client} by ${ban.rule}`
    if (!window.confirm(`Lift ${which}?`)) return
    try {
      const wasInForce = await liftBan(ban)
      actions.notify(wasInForce ? `Lifted ${which}.` : `When lifted, ${which} had ended.`)
      remove(ban)
      // Its button will be gone.
      document.getElementById('ban-client')?.focus()
    } catch (error) {
      actions.notify(actions.explain(error))
    }
    reload()
  }

  function showAdded(): void {
    setClient('')
    reload()
  }

  const action = (ban: Ban) => (
    <button
      type="button"
      aria-label={`Lift the ban of ${ban.client} by ${ban.rule}`}
      onClick={() => lift(ban)}
    >
      Lift
    </button>
  )
  const inForce = view && `${formatCount(view.status.bans)} in force`
  const none = client === '' ? 'No bans in force.' : `No ban of ${client} in force.`
  return (
    <Panel
      name="bans"
      title="Bans"
      note={bans?.length === MAX_BANS ? `${inForce}, the first ${MAX_BANS}` : inForce}
    >
      <BanForm {...{ view, actions }} onFind={setClient} onAdded={showAdded} />
      <Table
        id="bans"
        caption="Bans in force"
        columns={[
          { label: 'Client', kind: 'name', cell: ban => ban.client },
          { label: 'Rule', kind: 'text', cell: ({ rule }) => rule },
          numbers<Ban>('Ends in', ({ ends_at }) => formatSpan(Date.parse(ends_at) - now)),
          { label: 'Lift', kind: 'number', cell: action },
        ]}
        rows={bans?.filter(({ ends_at }) => Date.parse(ends_at) > now)}
        keyOf={keyOf}
        empty={failure ?? none}
      />
    </Panel>
  )
}

const keyOf = ({ rule, client }: Ban) => JSON.stringify([rule, client])

interface Answer {
  /** `undefined` before the first answer. */
  readonly bans?: readonly Ban[]
  /** Why there is no list. */
  readonly failure?: string
}

/** The first bans in force, as new as the status that is shown, and functions that ask again and that take a lifted one out. */
function useBans({ view, actions }: PanelProps, client: string) {
  const [answer, setAnswer] = useState<Answer>({})
  const [changes, setChanges] = useState(0)
  const period = view && Math.floor(Date.parse(view.status.now) / REFRESH_MS)

  useEffect(() => {
    if (period === undefined) return
    let isNewest = true
    fetchBans(client).then(
      bans => isNewest && setAnswer({ bans }),
      error => isNewest && setAnswer({ bans: [], failure: actions.explain(error) }),
    )
    return () => {
      isNewest = false
    }
  }, [client, view?.status.bans, period, changes])

  return {
    ...answer,
    reload: () => setChanges(known => known + 1),
    remove: (lifted: Ban) =>
      setAnswer(({ bans = [], ...others }) => {
        return { ...others, bans: bans.filter(ban => keyOf(ban) !== keyOf(lifted)) }
      }),
  }
}

interface BanFormProps extends PanelProps {
  readonly onFind: (client: string) => void
  readonly onAdded: () => void
}

const LABELS: Readonly<Record<string, string>> = { rule: 'Rule', client: 'Client', for: 'For' }

function BanForm({ view, actions, onFind, onAdded }: BanFormProps) {
  const [errors, setErrors] = useState<Refusal['errors']>({})
  const form = useRef<HTMLFormElement>(null)
  const rules = view?.status.limits.rules.filter(({ type }) => type === 'ban') ?? []
  const read = (field: string) =>
    String(new FormData(form.current ?? undefined).get(field) ?? '').trim()

  function showErrors(found: Refusal['errors']): void {
    setErrors(found)
    const [wrong] = Object.keys(found)
    document.getElementById(`ban-${wrong}`)?.focus()
  }

  async function add(): Promise<void> {
    const time = read('for')
    const order = { rule: read('rule'), client: read('client'), ...(time && { for: time }) }
    if (order.client === '') {
      showErrors({ client: ["can't be blank"] })
      return
    }
    try {
      const ban = await addBan(order)
      setErrors({})
      actions.notify(`${ban.client} is banned by ${ban.rule}.`)
      onAdded()
    } catch (error) {
      const text = actions.explain(error)
      const found = error instanceof Refusal ? error.errors : {}
      showErrors(Object.keys(found).length > 0 ? found : { '': [text] })
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
        <input {...describe('client')} {...text} placeholder="such as 203.0.113.9" />
      </label>
      <button type="submit">Find</button>
      <label>
        Rule
        <select {...describe('rule')}>
          {rules.map(({ rule, dryRun }) => (
            <option key={`${rule} ${dryRun}`} value={rule}>
              {dryRun ? `${rule} (dry run)` : rule}
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
      <button type="button" id="add-ban" disabled={rules.length === 0} onClick={add}>
        Add the ban
      </button>
      <p class="bad" id="ban-error" role="alert">
        {messages.length > 0 && messages.join('. ')}
      </p>
    </form>
  )
}
