import { useState } from 'preact/hooks'
import type { RuleStatus } from '../../src/ops/management/service-status.ts'
import { formatCount, formatRate } from './format.ts'
import { Close, Panel, type PanelProps } from './panel.tsx'
import { Refusal, type Reloaded, reloadLimits } from './service.ts'
import type { View } from './state.ts'
import { type Column, numbers, Table, type Tone, toneOf } from './table.tsx'

/** What the reload of the file led to: what happened, and the rules or mistakes. */
interface Answer {
  readonly tone: 'good' | 'bad'
  readonly text: string
  readonly lines: readonly string[]
}

/** The rules in force with what they did, and the button that puts the file in force again. */
export function Limits({ view, actions }: PanelProps) {
  const [answer, setAnswer] = useState<Answer>()
  const [isReloading, setReloading] = useState(false)

  async function reload(): Promise<void> {
    setReloading(true)
    try {
      setAnswer(describeReload(await reloadLimits()))
    } catch (error) {
      const lines = error instanceof Refusal ? Object.values(error.errors).flat() : []
      setAnswer({ tone: 'bad', text: actions.explain(error), lines })
    }
    setReloading(false)
    actions.refresh()
  }

  function drop(): void {
    setAnswer(undefined)
    document.getElementById('reload')?.focus()
  }

  const button = (
    <button
      type="button"
      id="reload"
      aria-disabled={isReloading}
      onClick={() => isReloading || reload()}
    >
      Reload the file
    </button>
  )
  return (
    <Panel name="limits" title="Limits" note={view && describeStore(view)} button={button}>
      <div class="answer" id="reload-answer" role="status">
        {answer && (
          <div class="notice" data-tone={answer.tone}>
            <div>
              <p>{answer.text}</p>
              {answer.lines.length > 0 && (
                <ul>
                  {answer.lines.map(line => (
                    <li key={line}>{line}</li>
                  ))}
                </ul>
              )}
            </div>
            <Close onClick={drop} />
          </div>
        )}
      </div>
      <Table
        id="limits"
        caption="Rules of the limits"
        columns={columnsOf(view)}
        rows={view?.status.limits.rules}
        keyOf={keyOf}
        empty="No rules: no request is limited."
      />
    </Panel>
  )
}

function describeStore({ status: { limits } }: View): string {
  const { store, up } = limits
  if (store === 'none') return ''
  return up ? `counted in ${store}` : `${store} is down: the service counts by itself`
}

const TYPES: Readonly<Record<string, string>> = { rateLimit: 'rate limit' }

function columnsOf(view: View | undefined): readonly Column<RuleStatus>[] {
  const refusalsAMinute = (rule: RuleStatus) => {
    const rate = view?.perSecond(({ limits }) => {
      const known = limits.rules.find(one => keyOf(one) === keyOf(rule))
      return known && (rule.dryRun ? known.would_refuse : known.refused)
    })
    return rate === undefined ? undefined : rate * 60
  }
  return [
    {
      label: 'Rule',
      kind: 'name',
      cell: ({ type, rule, dryRun }) => (
        <>
          <span class="rule">{rule}</span>
          <span class="badge">{TYPES[type] ?? type}</span>
          {dryRun && (
            <span class="badge" data-tone="dry">
              dry run
            </span>
          )}
        </>
      ),
    },
    count('Counted', 'counted', undefined),
    count('Passed', 'passed', undefined),
    count('Refused', 'refused', 'warn'),
    count('Would refuse', 'would_refuse', 'dry'),
    numbers(
      'Per minute',
      rule => formatRate(refusalsAMinute(rule)),
      rule => toneOf(refusalsAMinute(rule), rule.dryRun ? 'dry' : 'warn'),
    ),
  ]
}

/** A column of counts; `tone` is that of a count over 0. */
function count(
  label: string,
  name: 'counted' | 'passed' | 'refused' | 'would_refuse',
  tone: Tone,
): Column<RuleStatus> {
  const cell = (rule: RuleStatus) => formatCount(rule[name])
  return numbers(label, cell, rule => (rule[name] === 0 ? 'zero' : tone))
}

function keyOf({ type, rule, dryRun }: RuleStatus): string {
  return `${type} ${rule} ${dryRun}`
}

function describeReload({ reloaded, message, came, changed, went }: Reloaded): Answer {
  const lines = [
    ...(came ?? []).map(rule => `new: ${rule}`),
    ...(changed ?? []).map(rule => `changed: ${rule}`),
    ...(went ?? []).map(rule => `gone: ${rule}`),
  ]
  const differs = lines.length === 0 ? ' No rule differs.' : ''
  const text = reloaded ? `Reloaded.${differs}` : `${message ?? 'Nothing was reloaded'}.`
  return { tone: 'good', text, lines }
}
