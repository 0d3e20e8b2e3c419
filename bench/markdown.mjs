// Parts of documents that are made from measurements.

/** A table, whose first column is text and whose others are numbers. */
export function table(head, rows) {
  const line = cells => `| ${cells.join(' | ')} |`
  const rule = `|---|${'---:|'.repeat(head.length - 1)}`
  return [line(head), rule, ...rows.map(line)].join('\n')
}

/** Where and when something was measured, and whether other programs took more than half of the CPUs. */
export function describeRun({ node, cpus, cpu, date, load }) {
  const busy = load > cpus / 2 ? `, beside other work (load average ${load})` : ''
  return `Node ${node}, ${cpus} × ${cpu}, ${date}${busy}`
}

/** Replaces what is between the marks of the part `name`. */
export function replacePart(text, name, content) {
  const [begin, end] = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`]
  const [before, ...behindBegin] = text.split(begin)
  const [, ...behindEnd] = behindBegin.join(begin).split(end)
  if (behindBegin.length !== 1 || behindEnd.length !== 1) {
    throw new Error(`the document must have ${begin} and ${end} once`)
  }
  return `${before}${begin}\n\n${content}\n\n${end}${behindEnd[0]}`
}

/** A number with separators, such as 12,345. */
export function grouped(number) {
  return Math.round(number).toLocaleString('en')
}
