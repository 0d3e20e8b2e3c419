import type { RuleStatus } from '../../src/ops/management/service-status.ts'
import { byId, element, setText } from './dom.ts'
import { formatCount, formatRate } from './format.ts'
import { Refusal, type Reloaded, reloadLimits } from './service.ts'
import type { View } from './state.ts'
import { createTable, toneOf, toneOfZero } from './table.ts'

const TYPES: Readonly<Record<string, string>> = { rateLimit: 'rate limit' }

export interface LimitsOptions {
  /** Called with what went wrong with a request of the operator. Returns it in words. */
  readonly onTrouble: (error: unknown) => string
  /** Called when the rules may have changed. */
  readonly onChange: () => void
}

/** The rules in force with what they did, and the button that puts the file in force again. */
export function createLimits({ onTrouble, onChange }: LimitsOptions) {
  let shown: View | undefined

  const refusalsAMinute = (rule: RuleStatus) => {
    const rate = shown?.perSecond(({ limits }) => {
      const known = limits.rules.find(one => keyOf(one) === keyOf(rule))
      return known && (rule.dryRun ? known.would_refuse : known.refused)
    })
    return rate === undefined ? undefined : rate * 60
  }

  const table = createTable<RuleStatus>(byId('limits'), {
    caption: 'Rules of the limits',
    keyOf,
    empty: 'No rules: no request is limited.',
    columns: [
      {
        label: 'Rule',
        kind: 'name',
        fill: (cell, { type, rule, dryRun }) => {
          cell.append(
            element('span', { class: 'rule' }, rule),
            element('span', { class: 'badge' }, TYPES[type] ?? type),
            ...(dryRun ? [element('span', { class: 'badge dry' }, 'dry run')] : []),
          )
        },
      },
      number('Counted', 'counted'),
      number('Passed', 'passed'),
      { ...number('Refused', 'refused'), tone: ({ refused }) => toneOf(refused, 'warn') },
      {
        ...number('Would refuse', 'would_refuse'),
        tone: ({ would_refuse }) => toneOf(would_refuse, 'dry'),
      },
      {
        label: 'Per minute',
        kind: 'number',
        text: rule => formatRate(refusalsAMinute(rule)),
        tone: rule => toneOf(refusalsAMinute(rule), rule.dryRun ? 'dry' : 'warn'),
      },
    ],
  })

  const button = byId<HTMLButtonElement>('reload')
  button.addEventListener('click', async () => {
    button.disabled = true
    try {
      showAnswer(describeReload(await reloadLimits()))
    } catch (error) {
      const problem = onTrouble(error)
      const mistakes = error instanceof Refusal ? Object.values(error.errors).flat() : []
      showAnswer([problem, ...mistakes], 'bad')
    }
    button.disabled = false
    button.focus()
    onChange()
  })

  return {
    update: (view: View) => {
      shown = view
      const { rules, store, up } = view.status.limits
      table.update(rules)
      const where = up ? `counted in ${store}` : `${store} is down: the service counts by itself`
      setText(byId('limits-store'), store === 'none' ? '' : where)
    },
  }
}

function keyOf({ type, rule, dryRun }: RuleStatus): string {
  return `${type} ${rule} ${dryRun}`
}

function number(label: string, name: 'counted' | 'passed' | 'refused' | 'would_refuse') {
  return {
    label,
    kind: 'number' as const,
    text: (rule: RuleStatus) => formatCount(rule[name]),
    tone: (rule: RuleStatus) => toneOfZero(rule[name]),
  }
}

/** The first line says what happened, the others which rules it happened to. */
function showAnswer([first = '', ...lines]: readonly string[], tone = 'good'): void {
  const host = byId('reload-answer')
  const close = element('button', { type: 'button', class: 'close', 'aria-label': 'Close' }, '×')
  close.addEventListener('click', () => {
    host.replaceChildren()
    byId('reload').focus()
  })
  const list = element('ul', {}, ...lines.map(line => element('li', {}, line)))
  const text = element('div', {}, element('p', {}, first), ...(lines.length > 0 ? [list] : []))
  host.replaceChildren(element('div', { class: `notice ${tone}` }, text, close))
}

/** The answer of `POST /limits/reload`, in lines. */
function describeReload({ reloaded, message, came, changed, went }: Reloaded): readonly string[] {
  if (!reloaded) return [`${message ?? 'Nothing was reloaded'}.`]
  const lines = [
    ...(came ?? []).map(rule => `new: ${rule}`),
    ...(changed ?? []).map(rule => `changed: ${rule}`),
    ...(went ?? []).map(rule => `gone: ${rule}`),
  ]
  return [lines.length === 0 ? 'Reloaded. No rule differs.' : 'Reloaded.', ...lines]
}
