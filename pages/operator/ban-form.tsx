import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { RuleStatus } from '../../src/ops/management/service-status.ts'
import { Dialog, Wrong } from './dialog.tsx'
import { formatMoment } from './format.ts'
import type { PanelProps } from './panel.tsx'
import { addBan, Refusal } from './service.ts'

export interface BanFormProps extends Pick<PanelProps, 'actions'> {
  /** The rules to choose from. */
  readonly rules: readonly RuleStatus[]
  /** The time of the service, in milliseconds since the epoch. */
  readonly now: number
  readonly onAdded: () => void
  readonly onClose: () => void
}

type Errors = Refusal['errors']

const FIELDS = ['rule', 'client', 'for'] as const

/** The dialog that adds a ban. */
export function BanForm({ rules, now, actions, onAdded, onClose }: BanFormProps) {
  const [errors, setErrors] = useState<Errors>({})
  const rule = useRef<HTMLSelectElement>(null)
  const client = useRef<HTMLInputElement>(null)
  const length = useRef<HTMLInputElement>(null)

  useLayoutEffect(() => {
    const wrong = FIELDS.find(field => errors[field] !== undefined)
    if (wrong !== undefined) document.getElementById(`add-${wrong}`)?.focus()
  }, [errors])

  async function submit(): Promise<boolean> {
    const name = client.current?.value.trim() ?? ''
    const time = length.current?.value.trim()
    if (name === '') {
      setErrors({ client: ["can't be blank"] })
      return false
    }
    try {
      const chosen = rule.current?.value ?? ''
      const ban = await addBan({ rule: chosen, client: name, ...(time && { for: time }) })
      const ends = formatMoment(Date.parse(ban.ends_at), now)
      actions.notify(`${ban.client} is banned by ${ban.rule} until ${ends}.`)
      onAdded()
      return true
    } catch (error) {
      const text = actions.explain(error)
      const found = error instanceof Refusal ? error.errors : {}
      setErrors(FIELDS.some(field => found[field] !== undefined) ? found : { other: [text] })
      return false
    }
  }

  /** What is wrong with a field, below it. */
  const wrong = (field: string) => (
    <Wrong id={`add-${field}-error`} text={errors[field]?.join('; ')} />
  )
  const describe = (field: string) => ({
    id: `add-${field}`,
    'aria-describedby': `add-${field}-hint add-${field}-error`,
    'aria-invalid': errors[field] !== undefined || undefined,
  })
  const text = { autocomplete: 'off', spellcheck: false }
  return (
    <Dialog
      id="add-dialog"
      title="Add a ban"
      action="Add the ban"
      onSubmit={submit}
      onClose={onClose}
    >
      <label for="add-rule">Rule</label>
      <select {...describe('rule')} ref={rule}>
        {rules.map(({ rule: name, dryRun }) => (
          <option key={`${name} ${dryRun}`} value={name}>
            {dryRun ? `${name} (dry run)` : name}
          </option>
        ))}
      </select>
      {wrong('rule')}
      <label for="add-client">Client</label>
      <input {...describe('client')} {...text} autofocus ref={client} />
      <p class="faint" id="add-client-hint">
        What the rule counts clients by, such as an address.
      </p>
      {wrong('client')}
      <label for="add-for">For</label>
      <input {...describe('for')} {...text} ref={length} />
      <p class="faint" id="add-for-hint">
        Such as “10 minutes” or “1 day”. Empty: as long as the rule says.
      </p>
      {wrong('for')}
      {wrong('other')}
    </Dialog>
  )
}
