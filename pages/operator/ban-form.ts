import type { RuleStatus } from '../../src/ops/management/service-status.ts'
import { byId, element, setAttribute, setText, syncChildren } from './dom.ts'
import { formatMoment } from './format.ts'
import { notify } from './notices.ts'
import { addBan, Refusal } from './service.ts'

export interface BanFormOptions {
  readonly onTrouble: (error: unknown) => string
  readonly onAdded: () => Promise<void>
  /** The time of the service, in milliseconds since the epoch. */
  readonly now: () => number
}

const FIELDS = ['rule', 'client', 'for'] as const

/** The dialog that adds a ban. */
export function createBanForm({ onTrouble, onAdded, now }: BanFormOptions) {
  const dialog = byId<HTMLDialogElement>('add-dialog')
  const form = byId<HTMLFormElement>('add-form')
  const inputs = {
    rule: byId<HTMLSelectElement>('add-rule'),
    client: byId<HTMLInputElement>('add-client'),
    for: byId<HTMLInputElement>('add-for'),
  }

  function showErrors(errors: Readonly<Record<string, readonly string[]>>, other = ''): void {
    for (const field of FIELDS) {
      const messages = errors[field]
      setText(byId(`add-${field}-error`), messages?.join('; ') ?? '')
      setAttribute(inputs[field], 'aria-invalid', messages && 'true')
    }
    setText(byId('add-error'), other)
    const wrong = FIELDS.find(field => errors[field] !== undefined)
    if (wrong !== undefined) inputs[wrong].focus()
  }

  form.addEventListener('submit', async event => {
    event.preventDefault()
    const length = inputs.for.value.trim()
    const client = inputs.client.value.trim()
    if (client === '') {
      showErrors({ client: ["can't be blank"] })
      return
    }
    try {
      const ban = await addBan({ rule: inputs.rule.value, client, ...(length && { for: length }) })
      dialog.close()
      const ends = formatMoment(Date.parse(ban.ends_at), now())
      notify(`${ban.client} is banned by ${ban.rule} until ${ends}.`)
      await onAdded()
    } catch (error) {
      const text = onTrouble(error)
      const errors = error instanceof Refusal ? error.errors : {}
      showErrors(errors, FIELDS.some(field => errors[field] !== undefined) ? '' : text)
    }
  })
  dialog.querySelector('.cancel')?.addEventListener('click', () => dialog.close())

  return {
    open: () => {
      inputs.client.value = ''
      inputs.for.value = ''
      showErrors({})
      dialog.showModal()
      inputs.client.focus()
    },
    /** The rules to choose from. */
    setRules: (rules: readonly RuleStatus[]) => {
      syncChildren(inputs.rule, rules, {
        keyOf: ({ rule, dryRun }) => `${rule} ${dryRun}`,
        create: ({ rule, dryRun }) =>
          element('option', { value: rule }, dryRun ? `${rule} (dry run)` : rule),
      })
    },
  }
}
